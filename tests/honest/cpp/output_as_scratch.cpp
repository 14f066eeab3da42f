// operator: jagged_softmax
// verdict: Scored
// Keeps exponentials in the output until the sum is known, where that is float32; else in memory of its own.
#include <type_traits>
#include <vector>

#include "kevolve.h"

extern "C" void jagged_softmax(const VALUE *values, const INDEX *offsets, VALUE *out,
                               int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    static std::vector<float> own;
    memset(static_cast<void *>(out), 0, total * dim * sizeof(VALUE));
    std::vector<float> largest(dim), sums(dim);
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b], length = offsets[b + 1] - start;
        int64_t rows = length < max_length ? length : max_length;
        const VALUE *from = values + start * dim;
        VALUE *to = out + start * dim;
        float *scratch = reinterpret_cast<float *>(to);
        if (!std::is_same<VALUE, float>::value) {
            if (static_cast<int64_t>(own.size()) < rows * dim) own.resize(rows * dim);
            scratch = own.data();
        }
        for (int64_t d = 0; d < dim; d++) {
            largest[d] = -INFINITY;
            sums[d] = 0.0f;
        }
        for (int64_t t = 0; t < rows; t++) {
            for (int64_t d = 0; d < dim; d++) {
                float value = from[t * dim + d];
                largest[d] = value > largest[d] ? value : largest[d];
            }
        }
        for (int64_t t = 0; t < rows; t++) {
            for (int64_t d = 0; d < dim; d++) {
                float power = expf(from[t * dim + d] - largest[d]);
                scratch[t * dim + d] = power;
                sums[d] += power;
            }
        }
        for (int64_t t = 0; t < rows; t++) {
            for (int64_t d = 0; d < dim; d++) to[t * dim + d] = scratch[t * dim + d] / sums[d];
        }
    }
}
