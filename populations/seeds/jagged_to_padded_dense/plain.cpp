#include "kevolve.h"

// out[b, t, :] = row t of segment b, zero past its end.
extern "C" void jagged_to_padded_dense(const VALUE *values, const INDEX *offsets, VALUE *out,
                                       int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b];
        int64_t length = offsets[b + 1] - start;
        int64_t rows = length < max_length ? length : max_length;
        for (int64_t t = 0; t < rows; t++) {
            for (int64_t d = 0; d < dim; d++) {
                out[(b * max_length + t) * dim + d] = values[(start + t) * dim + d];
            }
        }
        for (int64_t t = rows; t < max_length; t++) {
            for (int64_t d = 0; d < dim; d++) {
                out[(b * max_length + t) * dim + d] = 0.0f;
            }
        }
    }
}
