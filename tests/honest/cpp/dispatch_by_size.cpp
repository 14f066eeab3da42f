// operator: jagged_sum
// verdict: Scored
// One way for single columns, one for narrow rows, one for wide ones; all of them right for all sizes.
#include "kevolve.h"

static void one_column(const VALUE *values, int64_t start, int64_t end, VALUE *out) {
    float sums[4] = {};
    int64_t t = start;
    for (; t + 4 <= end; t += 4) {
        for (int i = 0; i < 4; i++) sums[i] += values[t + i];
    }
    for (; t < end; t++) sums[0] += values[t];
    *out = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static void columns(const VALUE *values, int64_t start, int64_t end, VALUE *out, int64_t dim) {
    float sums[64] = {};
    for (int64_t t = start; t < end; t++) {
        for (int64_t d = 0; d < dim; d++) sums[d] += values[t * dim + d];
    }
    for (int64_t d = 0; d < dim; d++) out[d] = sums[d];
}

static void wide(const VALUE *values, int64_t start, int64_t end, VALUE *out, int64_t dim) {
    for (int64_t left = 0; left < dim; left += 128) {
        float sums[128] = {};
        int64_t width = dim - left < 128 ? dim - left : 128;
        for (int64_t t = start; t < end; t++) {
            for (int64_t d = 0; d < width; d++) sums[d] += values[t * dim + left + d];
        }
        for (int64_t d = 0; d < width; d++) out[left + d] = sums[d];
    }
}

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
#pragma omp parallel for schedule(dynamic, 8) if (total * dim > 4096)
    for (int64_t b = 0; b < batch; b++) {
        if (dim == 1) {
            one_column(values, offsets[b], offsets[b + 1], out + b);
        } else if (dim <= 64) {
            columns(values, offsets[b], offsets[b + 1], out + b * dim, dim);
        } else {
            wide(values, offsets[b], offsets[b + 1], out + b * dim, dim);
        }
    }
}
