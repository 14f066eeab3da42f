#include "kevolve.h"

// Row t of the output = row t of values times the matrix of its segment. Only the first max_length rows
// of a segment take part; every other row of the output is zero.
extern "C" void jagged_dense_bmm(const VALUE *values, const INDEX *offsets, const VALUE *matrices, VALUE *out,
                                 int64_t batch, int64_t total, int64_t dim, int64_t out_dim,
                                 int64_t max_length) {
    for (int64_t i = 0; i < total * out_dim; i++) {
        out[i] = 0.0f;
    }
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b];
        int64_t length = offsets[b + 1] - start;
        int64_t end = start + (length < max_length ? length : max_length);
        for (int64_t t = start; t < end; t++) {
            for (int64_t p = 0; p < out_dim; p++) {
                float sum = 0.0f;
                for (int64_t d = 0; d < dim; d++) {
                    sum += values[t * dim + d] * matrices[(b * dim + d) * out_dim + p];
                }
                out[t * out_dim + p] = sum;
            }
        }
    }
}
