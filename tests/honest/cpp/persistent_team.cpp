// operator: jagged_sum
// verdict: Scored
// One team of threads takes entries off a shared counter until none is left.
#include <omp.h>

#include "kevolve.h"

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    int64_t next = 0;
#pragma omp parallel
    for (;;) {
        int64_t first;
#pragma omp atomic capture
        {
            first = next;
            next += 4;
        }
        if (first >= batch) break;
        int64_t last = first + 4 < batch ? first + 4 : batch;
        for (int64_t b = first; b < last; b++) {
            for (int64_t left = 0; left < dim; left += 32) {
                float sums[32] = {};
                int64_t width = dim - left < 32 ? dim - left : 32;
                for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) {
                    for (int64_t d = 0; d < width; d++) sums[d] += values[t * dim + left + d];
                }
                for (int64_t d = 0; d < width; d++) out[b * dim + left + d] = sums[d];
            }
        }
    }
}
