// operator: jagged_sum
// verdict: Scored
// Carries along what each addition loses, and is more accurate than asked.
#include "kevolve.h"

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
#pragma omp parallel for schedule(dynamic, 8)
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t left = 0; left < dim; left += 32) {
            int64_t width = dim - left < 32 ? dim - left : 32;
            double sums[32] = {}, lost[32] = {};
            for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) {
                for (int64_t d = 0; d < width; d++) {
                    double value = static_cast<float>(values[t * dim + left + d]);
                    double sum = sums[d] + value, part = sum - sums[d];
                    lost[d] += (sums[d] - (sum - part)) + (value - part);
                    sums[d] = sum;
                }
            }
            for (int64_t d = 0; d < width; d++) {
                double whole = sums[d] + lost[d];
                out[b * dim + left + d] = static_cast<float>(whole == whole ? whole : sums[d]);
            }
        }
    }
}
