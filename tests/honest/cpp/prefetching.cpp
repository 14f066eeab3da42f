// operator: dense_to_jagged
// verdict: Scored
// Asks for rows before it needs them.
#include "kevolve.h"

extern "C" void dense_to_jagged(const VALUE *dense, const INDEX *offsets, VALUE *out,
                                int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b], length = offsets[b + 1] - start;
        int64_t rows = length < max_length ? length : max_length;
        const VALUE *from = dense + b * max_length * dim;
        for (int64_t t = 0; t < rows; t++) {
            __builtin_prefetch(from + (t + 4) * dim, 0, 0);
            __builtin_prefetch(out + (start + t + 2) * dim, 1);
            memcpy(static_cast<void *>(out + (start + t) * dim), from + t * dim, dim * sizeof(VALUE));
        }
        memset(static_cast<void *>(out + (start + rows) * dim), 0, (length - rows) * dim * sizeof(VALUE));
    }
    memset(static_cast<void *>(out + offsets[batch] * dim), 0, (total - offsets[batch]) * dim * sizeof(VALUE));
}
