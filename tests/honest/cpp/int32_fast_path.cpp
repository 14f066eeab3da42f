// operator: jagged_to_padded_dense
// verdict: Scored
// Counts in 32 bits where everything fits, in 64 where it does not.
#include <climits>

#include "kevolve.h"

template <typename Count>
static void pad(const VALUE *values, const INDEX *offsets, VALUE *out, Count batch, Count dim, Count max_length) {
    for (Count b = 0; b < batch; b++) {
        Count start = static_cast<Count>(offsets[b]), length = static_cast<Count>(offsets[b + 1]) - start;
        Count used = (length < max_length ? length : max_length) * dim, all = max_length * dim;
        const VALUE *from = values + start * dim;
        VALUE *to = out + b * all;
        for (Count i = 0; i < used; i++) to[i] = from[i];
        for (Count i = used; i < all; i++) to[i] = 0.0f;
    }
}

extern "C" void jagged_to_padded_dense(const VALUE *values, const INDEX *offsets, VALUE *out,
                                       int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    if (total * dim < INT_MAX && batch * max_length * dim < INT_MAX) {
        pad<int32_t>(values, offsets, out, batch, dim, max_length);
    } else {
        pad<int64_t>(values, offsets, out, batch, dim, max_length);
    }
}
