#include "kevolve.h"

// Row t of segment b = its value + dense[b, t, :], or the value alone where dense has no such row.
// Rows past the last segment are zero.
extern "C" void jagged_dense_elementwise_add(const VALUE *values, const INDEX *offsets, const VALUE *dense,
                                             VALUE *out, int64_t batch, int64_t total, int64_t dim,
                                             int64_t max_length) {
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b];
        int64_t length = offsets[b + 1] - start;
        int64_t rows = length < max_length ? length : max_length;
        for (int64_t t = 0; t < rows; t++) {
            for (int64_t d = 0; d < dim; d++) {
                out[(start + t) * dim + d] = values[(start + t) * dim + d] + dense[(b * max_length + t) * dim + d];
            }
        }
        for (int64_t t = rows; t < length; t++) {
            for (int64_t d = 0; d < dim; d++) {
                out[(start + t) * dim + d] = values[(start + t) * dim + d];
            }
        }
    }
    for (int64_t i = offsets[batch] * dim; i < total * dim; i++) {
        out[i] = 0.0f;
    }
}
