// operator: dense_to_jagged
// verdict: Scored
// Threads share rows of the result, and find the entry that a row belongs to by bisection.
#include <algorithm>

#include "kevolve.h"

extern "C" void dense_to_jagged(const VALUE *dense, const INDEX *offsets, VALUE *out,
                                int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < total; t++) {
        int64_t b = std::upper_bound(offsets, offsets + batch + 1, static_cast<INDEX>(t)) - offsets - 1;
        int64_t place = b < batch ? t - offsets[b] : max_length;
        if (place < max_length) {
            memcpy(static_cast<void *>(out + t * dim), dense + (b * max_length + place) * dim, dim * sizeof(VALUE));
        } else {
            memset(static_cast<void *>(out + t * dim), 0, dim * sizeof(VALUE));
        }
    }
}
