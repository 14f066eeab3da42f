#include "kevolve.h"

// Softmax over the rows of each segment, one column at a time. Only the first max_length rows
// of a segment take part; every other row of the output is zero.
extern "C" void jagged_softmax(const VALUE *values, const INDEX *offsets, VALUE *out,
                               int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    for (int64_t i = 0; i < total * dim; i++) {
        out[i] = 0.0f;
    }
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b];
        int64_t length = offsets[b + 1] - start;
        int64_t end = start + (length < max_length ? length : max_length);
        for (int64_t d = 0; d < dim; d++) {
            float largest = -INFINITY;
            for (int64_t t = start; t < end; t++) {
                float value = values[t * dim + d];
                largest = value > largest ? value : largest;
            }
            float sum = 0.0f;
            for (int64_t t = start; t < end; t++) {
                sum += expf(values[t * dim + d] - largest);
            }
            for (int64_t t = start; t < end; t++) {
                out[t * dim + d] = expf(values[t * dim + d] - largest) / sum;
            }
        }
    }
}
