// operator: jagged_sum
// verdict: Scored
// Little work is done before a second thread would have woken up: some calls take less than a microsecond.
#include "kevolve.h"

static inline void add(const VALUE *values, int64_t start, int64_t end, VALUE *out, int64_t dim) {
    for (int64_t d = 0; d < dim; d++) {
        float even = 0.0f, odd = 0.0f;
        int64_t t = start;
        for (; t + 2 <= end; t += 2) {
            even += values[t * dim + d];
            odd += values[(t + 1) * dim + d];
        }
        out[d] = even + odd + (t < end ? static_cast<float>(values[t * dim + d]) : 0.0f);
    }
}

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    if (total * dim <= 65536) {
        for (int64_t b = 0; b < batch; b++) add(values, offsets[b], offsets[b + 1], out + b * dim, dim);
        return;
    }
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t b = 0; b < batch; b++) add(values, offsets[b], offsets[b + 1], out + b * dim, dim);
}
