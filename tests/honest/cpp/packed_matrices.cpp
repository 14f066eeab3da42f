// operator: jagged_dense_bmm
// verdict: Scored
// Turns each entry's matrix round, as float32, into a workspace that it keeps, then takes dot products.
#include <vector>

#include "kevolve.h"

extern "C" void jagged_dense_bmm(const VALUE *values, const INDEX *offsets, const VALUE *matrices, VALUE *out,
                                 int64_t batch, int64_t total, int64_t dim, int64_t out_dim, int64_t max_length) {
    static std::vector<float> turned, row;
    if (static_cast<int64_t>(turned.size()) < dim * out_dim) turned.resize(dim * out_dim);
    if (static_cast<int64_t>(row.size()) < dim) row.resize(dim);
    int64_t done = 0;
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b], length = offsets[b + 1] - start;
        int64_t end = start + (length < max_length ? length : max_length);
        if (start == end) continue;
        for (int64_t d = 0; d < dim; d++) {
            for (int64_t p = 0; p < out_dim; p++) turned[p * dim + d] = matrices[(b * dim + d) * out_dim + p];
        }
        for (int64_t i = done * out_dim; i < start * out_dim; i++) out[i] = 0.0f;
        for (int64_t t = start; t < end; t++) {
            for (int64_t d = 0; d < dim; d++) row[d] = values[t * dim + d];
            for (int64_t p = 0; p < out_dim; p++) {
                float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
                for (int64_t d = 0; d < dim; d++) sum += row[d] * turned[p * dim + d];
                out[t * out_dim + p] = sum;
            }
        }
        done = end;
    }
    for (int64_t i = done * out_dim; i < total * out_dim; i++) out[i] = 0.0f;
}
