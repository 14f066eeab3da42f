// operator: jagged_sum
// The honest sum that the attempts start from: rows shared among threads.
#include "kevolve.h"

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
#pragma omp parallel for schedule(dynamic, 8) if (batch * dim > 4096)
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t left = 0; left < dim; left += 128) {
            int64_t width = dim - left < 128 ? dim - left : 128;
            float sums[128] = {};
            if (width == 128) {
                for (int64_t t = offsets[b]; t < offsets[b + 1]; t++)
                    for (int64_t d = 0; d < 128; d++) sums[d] += values[t * dim + left + d];
            } else {
                for (int64_t t = offsets[b]; t < offsets[b + 1]; t++)
                    for (int64_t d = 0; d < width; d++) sums[d] += values[t * dim + left + d];
            }
            for (int64_t d = 0; d < width; d++) out[b * dim + left + d] = sums[d];
        }
    }
}
