// operator: jagged_dense_bmm
// verdict: Scored
// A function made for each usual width of the matrices, and one for all others.
#include "kevolve.h"

template <int kWidth>
static void multiply(const VALUE *row, const VALUE *matrix, VALUE *out, int64_t dim, int64_t width) {
    float sums[kWidth] = {};
    for (int64_t d = 0; d < dim; d++) {
        float value = row[d];
        for (int p = 0; p < kWidth; p++) sums[p] += value * matrix[d * width + p];
    }
    for (int p = 0; p < kWidth; p++) out[p] = sums[p];
}

static void multiply_any(const VALUE *row, const VALUE *matrix, VALUE *out, int64_t dim, int64_t width) {
    for (int64_t p = 0; p < width; p++) {
        float sum = 0.0f;
        for (int64_t d = 0; d < dim; d++) sum += row[d] * matrix[d * width + p];
        out[p] = sum;
    }
}

extern "C" void jagged_dense_bmm(const VALUE *values, const INDEX *offsets, const VALUE *matrices, VALUE *out,
                                 int64_t batch, int64_t total, int64_t dim, int64_t out_dim, int64_t max_length) {
    auto *product = out_dim == 64 ? multiply<64> : out_dim == 32 ? multiply<32> : multiply_any;
    if (out_dim == 16) product = multiply<16>;
    memset(static_cast<void *>(out), 0, total * out_dim * sizeof(VALUE));
#pragma omp parallel for schedule(dynamic)
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b], length = offsets[b + 1] - start;
        int64_t rows = length < max_length ? length : max_length;
        for (int64_t t = start; t < start + rows; t++) {
            product(values + t * dim, matrices + b * dim * out_dim, out + t * out_dim, dim, out_dim);
        }
    }
}
