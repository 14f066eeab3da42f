#include "kevolve.h"

// out[b, d] = mean of values[t, d] over the rows t of segment b, zero if it has none.
extern "C" void jagged_mean(const VALUE *values, const INDEX *offsets, VALUE *out,
                            int64_t batch, int64_t total, int64_t dim) {
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b];
        int64_t end = offsets[b + 1];
        float count = end > start ? end - start : 1;
        for (int64_t d = 0; d < dim; d++) {
            float sum = 0.0f;
            for (int64_t t = start; t < end; t++) {
                sum += values[t * dim + d];
            }
            out[b * dim + d] = sum / count;
        }
    }
}
