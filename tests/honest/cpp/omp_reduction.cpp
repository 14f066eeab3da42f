// operator: jagged_sum
// verdict: Scored
// All threads work on one entry after the other; OpenMP joins their sums.
#include "kevolve.h"

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t left = 0; left < dim; left += 64) {
            float sums[64] = {};
            int64_t width = dim - left < 64 ? dim - left : 64;
#pragma omp parallel for reduction(+ : sums[:64]) if ((offsets[b + 1] - offsets[b]) * width > 16384)
            for (int64_t t = static_cast<int64_t>(offsets[b]); t < static_cast<int64_t>(offsets[b + 1]); t++) {
                for (int64_t d = 0; d < width; d++) sums[d] += values[t * dim + left + d];
            }
            for (int64_t d = 0; d < width; d++) out[b * dim + left + d] = sums[d];
        }
    }
}
