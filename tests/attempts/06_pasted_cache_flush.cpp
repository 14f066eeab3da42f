// operator: jagged_sum
// Throws what it has read out of the caches, by a builtin whose name is pasted together, so that the baseline reads memory.
#include "kevolve.h"

#define GLUED(a, b) a##b

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
    int64_t count = offsets[batch] * dim;
#pragma omp parallel for
    for (int64_t i = 0; i < count; i += 64 / sizeof(VALUE)) GLUED(__builtin_ia32_cl, flushopt)(values + i);
}
