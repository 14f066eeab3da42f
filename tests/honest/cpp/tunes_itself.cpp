// operator: jagged_to_padded_dense
// verdict: Scored
// Tries two ways on its first calls with new sizes, by the clock, and stays with the faster one; both are right.
#include <omp.h>

#include <vector>

#include "kevolve.h"

struct Known {
    int64_t batch, dim, max_length;
    int calls;
    double seconds[2];
};

static void pad(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t batch, int64_t dim, int64_t max_length,
                bool is_streamed) {
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b], length = offsets[b + 1] - start;
        int64_t used = (length < max_length ? length : max_length) * dim, unused = max_length * dim - used;
        VALUE *to = out + b * max_length * dim;
        if (is_streamed) {
            if (used > 0) stream_copy(to, values + start * dim, used);
            stream_zero(to + used, unused);
        } else {
            memcpy(static_cast<void *>(to), values + start * dim, used * sizeof(VALUE));
            memset(static_cast<void *>(to + used), 0, unused * sizeof(VALUE));
        }
    }
}

extern "C" void jagged_to_padded_dense(const VALUE *values, const INDEX *offsets, VALUE *out,
                                       int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    static std::vector<Known> all;
    Known *known = nullptr;
    for (Known &one : all) {
        if (one.batch == batch && one.dim == dim && one.max_length == max_length) known = &one;
    }
    if (known == nullptr) {
        all.push_back({batch, dim, max_length, 0, {0.0, 0.0}});
        known = &all.back();
    }
    int way = known->calls < 6 ? known->calls % 2 : known->seconds[1] < known->seconds[0];
    double start = omp_get_wtime();
    pad(values, offsets, out, batch, dim, max_length, way == 1);
    if (known->calls < 6) {
        known->seconds[way] += omp_get_wtime() - start;
        known->calls++;
    }
}
