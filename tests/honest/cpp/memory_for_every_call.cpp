// operator: jagged_sum
// verdict: Scored
// Allocates and frees its workspace in every call, and goes on without one if there is no memory.
#include <memory>
#include <new>

#include "kevolve.h"

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    std::unique_ptr<float[]> sums(new (std::nothrow) float[dim + 1]);
    for (int64_t b = 0; b < batch; b++) {
        if (sums == nullptr) {
            for (int64_t d = 0; d < dim; d++) {
                float sum = 0.0f;
                for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) sum += values[t * dim + d];
                out[b * dim + d] = sum;
            }
            continue;
        }
        memset(sums.get(), 0, dim * sizeof(float));
        for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) {
            for (int64_t d = 0; d < dim; d++) sums[d] += values[t * dim + d];
        }
        for (int64_t d = 0; d < dim; d++) out[b * dim + d] = sums[d];
    }
}
