// operator: jagged_to_padded_dense
// verdict: Scored
// Writes past the cache what nobody reads soon.
#include "kevolve.h"

extern "C" void jagged_to_padded_dense(const VALUE *values, const INDEX *offsets, VALUE *out,
                                       int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
#pragma omp parallel for schedule(dynamic, 2)
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b], length = offsets[b + 1] - start;
        int64_t rows = length < max_length ? length : max_length;
        VALUE *to = out + b * max_length * dim;
        if (rows > 0) stream_copy(to, values + start * dim, rows * dim);
        stream_zero(to + rows * dim, (max_length - rows) * dim);
    }
}
