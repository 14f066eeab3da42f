// operator: jagged_sum
// verdict: Scored
// Rows go to threads whatever entry they belong to; partial sums meet by atomic additions, in an order that differs
// from call to call.
#include <algorithm>
#include <vector>

#include "kevolve.h"

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    static std::vector<float> sums;
    sums.assign(batch * dim, 0.0f);
    int64_t end = batch > 0 ? static_cast<int64_t>(offsets[batch]) : 0;
#pragma omp parallel for schedule(dynamic)
    for (int64_t first = 0; first < end; first += 64) {
        int64_t last = std::min<int64_t>(first + 64, end);
        int64_t b = std::upper_bound(offsets, offsets + batch + 1, static_cast<INDEX>(first)) - offsets - 1;
        for (int64_t t = first; t < last; b++) {
            int64_t stop = std::min<int64_t>(last, offsets[b + 1]);
            for (int64_t d = 0; d < dim && t < stop; d++) {
                float part = 0.0f;
                for (int64_t u = t; u < stop; u++) part += values[u * dim + d];
#pragma omp atomic
                sums[b * dim + d] += part;
            }
            t = std::max(t, stop);
        }
    }
    for (int64_t i = 0; i < batch * dim; i++) out[i] = sums[i];
}
