// operator: jagged_dense_bmm
// verdict: Scored
// Four rows at a time share each number of the matrix; what is left over goes one by one.
#include "kevolve.h"

template <int kRows>
static void rows_times(const VALUE *rows, const VALUE *matrix, VALUE *out, int64_t dim, int64_t width) {
    for (int64_t left = 0; left < width; left += 16) {
        int64_t columns = width - left < 16 ? width - left : 16;
        float sums[kRows][16] = {};
        for (int64_t d = 0; d < dim; d++) {
            for (int r = 0; r < kRows; r++) {
                float value = rows[r * dim + d];
                for (int64_t p = 0; p < columns; p++) sums[r][p] += value * matrix[d * width + left + p];
            }
        }
        for (int r = 0; r < kRows; r++) {
            for (int64_t p = 0; p < columns; p++) out[r * width + left + p] = sums[r][p];
        }
    }
}

extern "C" void jagged_dense_bmm(const VALUE *values, const INDEX *offsets, const VALUE *matrices, VALUE *out,
                                 int64_t batch, int64_t total, int64_t dim, int64_t out_dim, int64_t max_length) {
    memset(static_cast<void *>(out), 0, total * out_dim * sizeof(VALUE));
#pragma omp parallel for schedule(dynamic)
    for (int64_t b = 0; b < batch; b++) {
        const VALUE *matrix = matrices + b * dim * out_dim;
        int64_t t = offsets[b], length = offsets[b + 1] - t;
        int64_t end = t + (length < max_length ? length : max_length);
        for (; t + 4 <= end; t += 4) rows_times<4>(values + t * dim, matrix, out + t * out_dim, dim, out_dim);
        for (; t < end; t++) rows_times<1>(values + t * dim, matrix, out + t * out_dim, dim, out_dim);
    }
}
