// operator: jagged_sum
// verdict: Scored
// Every thread keeps scratch of its own between calls.
#include <vector>

#include "kevolve.h"

static thread_local std::vector<float> scratch;

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t b = 0; b < batch; b++) {
        scratch.assign(dim, 0.0f);
        float *sums = scratch.data();
        for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) {
            for (int64_t d = 0; d < dim; d++) sums[d] += values[t * dim + d];
        }
        for (int64_t d = 0; d < dim; d++) out[b * dim + d] = sums[d];
    }
}
