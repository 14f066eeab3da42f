#include "kevolve.h"

// Row t of segment b = dense[b, t, :]. Rows that dense does not have are zero.
extern "C" void dense_to_jagged(const VALUE *dense, const INDEX *offsets, VALUE *out,
                                int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    for (int64_t i = 0; i < total * dim; i++) {
        out[i] = 0.0f;
    }
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b];
        int64_t length = offsets[b + 1] - start;
        int64_t rows = length < max_length ? length : max_length;
        for (int64_t t = 0; t < rows; t++) {
            for (int64_t d = 0; d < dim; d++) {
                out[(start + t) * dim + d] = dense[(b * max_length + t) * dim + d];
            }
        }
    }
}
