// operator: jagged_sum
// verdict: Scored
// Threads take segments from a shared std::atomic counter, so that nobody waits for the longest.
#include <algorithm>
#include <atomic>

#include "kevolve.h"

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t batch, int64_t total,
                           int64_t dim) {
    std::atomic<int64_t> next{0};
    #pragma omp parallel
    {
        float *sums = new float[dim];
        for (int64_t b; (b = next.fetch_add(1, std::memory_order_relaxed)) < batch;) {
            std::fill_n(sums, dim, 0.0f);
            for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) {
                for (int64_t d = 0; d < dim; d++) sums[d] += float(values[t * dim + d]);
            }
            for (int64_t d = 0; d < dim; d++) out[b * dim + d] = VALUE(sums[d]);
        }
        delete[] sums;
    }
}
