// operator: jagged_softmax
// verdict: Scored
// The longest entries first, so that threads end together.
#include <algorithm>
#include <numeric>
#include <vector>

#include "kevolve.h"

extern "C" void jagged_softmax(const VALUE *values, const INDEX *offsets, VALUE *out,
                               int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    std::vector<int64_t> order(batch);
    std::iota(order.begin(), order.end(), 0);
    auto length = [&](int64_t b) { return std::min<int64_t>(offsets[b + 1] - offsets[b], max_length); };
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return length(a) > length(b); });
    memset(static_cast<void *>(out), 0, total * dim * sizeof(VALUE));
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < batch; i++) {
        int64_t start = offsets[order[i]], end = start + length(order[i]);
        for (int64_t left = 0; left < dim; left += 64) {
            int64_t width = std::min<int64_t>(dim - left, 64);
            float largest[64], sums[64] = {};
            std::fill(largest, largest + 64, -INFINITY);
            for (int64_t t = start; t < end; t++) {
                for (int64_t d = 0; d < width; d++) {
                    float value = values[t * dim + left + d];
                    largest[d] = value > largest[d] ? value : largest[d];
                }
            }
            for (int64_t t = start; t < end; t++) {
                for (int64_t d = 0; d < width; d++) sums[d] += expf(values[t * dim + left + d] - largest[d]);
            }
            for (int64_t t = start; t < end; t++) {
                for (int64_t d = 0; d < width; d++) {
                    out[t * dim + left + d] = expf(values[t * dim + left + d] - largest[d]) / sums[d];
                }
            }
        }
    }
}
