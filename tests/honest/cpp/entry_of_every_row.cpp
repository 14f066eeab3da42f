// operator: jagged_dense_elementwise_add
// verdict: Scored
// First notes which entry every row belongs to, then goes through the rows as if they were one tensor.
#include <vector>

#include "kevolve.h"

extern "C" void jagged_dense_elementwise_add(const VALUE *values, const INDEX *offsets, const VALUE *dense,
                                             VALUE *out, int64_t batch, int64_t total, int64_t dim,
                                             int64_t max_length) {
    std::vector<const VALUE *> addends(total, nullptr);
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b], length = offsets[b + 1] - start;
        for (int64_t t = 0; t < length && t < max_length; t++) addends[start + t] = dense + (b * max_length + t) * dim;
    }
    int64_t end = offsets[batch];
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < total; t++) {
        VALUE *row = out + t * dim;
        if (t >= end) {
            for (int64_t d = 0; d < dim; d++) row[d] = 0.0f;
        } else if (addends[t] == nullptr) {
            for (int64_t d = 0; d < dim; d++) row[d] = values[t * dim + d];
        } else {
            for (int64_t d = 0; d < dim; d++) row[d] = values[t * dim + d] + addends[t][d];
        }
    }
}
