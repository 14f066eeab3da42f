// operator: jagged_sum
// verdict: Scored
// Keeps its distribution of entries to threads, and makes it anew as soon as a single offset differs.
#include <omp.h>

#include <vector>

#include "kevolve.h"

struct Plan {
    std::vector<INDEX> offsets;
    std::vector<int64_t> bounds;  // thread i has the entries from bounds[i] to bounds[i + 1]

    bool fits(const INDEX *now, int64_t batch, int threads) const {
        return static_cast<int64_t>(offsets.size()) == batch + 1 && static_cast<int>(bounds.size()) == threads + 1 &&
               memcmp(offsets.data(), now, (batch + 1) * sizeof(INDEX)) == 0;
    }

    void make(const INDEX *now, int64_t batch, int threads) {
        offsets.assign(now, now + batch + 1);
        bounds.assign(threads + 1, batch);
        bounds[0] = 0;
        int64_t b = 0;
        for (int i = 1; i < threads; i++) {
            while (b < batch && (now[b] - now[0]) * threads < (now[batch] - now[0]) * i) b++;
            bounds[i] = b;
        }
    }
};

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    static Plan plan;
    int threads = omp_get_max_threads();
    if (!plan.fits(offsets, batch, threads)) plan.make(offsets, batch, threads);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int i = 0; i < threads; i++) {
        for (int64_t b = plan.bounds[i]; b < plan.bounds[i + 1]; b++) {
            for (int64_t d = 0; d < dim; d++) {
                float sum = 0.0f;
                for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) sum += values[t * dim + d];
                out[b * dim + d] = sum;
            }
        }
    }
}
