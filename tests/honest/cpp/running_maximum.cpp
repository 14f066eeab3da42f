// operator: jagged_softmax
// verdict: Scored
// Maximum and sum in one pass: the sum is scaled down whenever a greater number comes.
#include "kevolve.h"

extern "C" void jagged_softmax(const VALUE *values, const INDEX *offsets, VALUE *out,
                               int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    int64_t done = 0;
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b], length = offsets[b + 1] - start;
        int64_t end = start + (length < max_length ? length : max_length);
        for (int64_t d = 0; d < dim; d++) {
            float largest = -INFINITY, sum = 0.0f;
            for (int64_t t = start; t < end; t++) {
                float value = values[t * dim + d];
                if (value > largest) {
                    sum = sum * expf(largest - value) + expf(value - value);  // NaN for an infinity, as it must be
                    largest = value;
                } else if (value != -INFINITY) {
                    sum += expf(value - largest);
                }
            }
            for (int64_t t = start; t < end; t++) out[t * dim + d] = expf(values[t * dim + d] - largest) / sum;
        }
        for (int64_t i = done * dim; i < start * dim; i++) out[i] = 0.0f;
        done = end;
    }
    for (int64_t i = done * dim; i < total * dim; i++) out[i] = 0.0f;
}
