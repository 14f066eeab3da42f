// operator: jagged_sum
// verdict: Scored
// Long entries are cut into pieces of 128 rows that threads share; a second pass adds the pieces.
#include <algorithm>
#include <vector>

#include "kevolve.h"

struct Piece {
    int64_t first, last;
};

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    std::vector<Piece> pieces;
    std::vector<int64_t> begins(batch + 1);
    for (int64_t b = 0; b < batch; b++) {
        begins[b] = pieces.size();
        for (int64_t t = offsets[b]; t < offsets[b + 1]; t += 128) {
            pieces.push_back({t, std::min<int64_t>(t + 128, offsets[b + 1])});
        }
    }
    int64_t count = pieces.size();
    begins[batch] = count;
    std::vector<float> sums(count * dim);
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 4)
        for (int64_t i = 0; i < count; i++) {
            for (int64_t t = pieces[i].first; t < pieces[i].last; t++) {
                for (int64_t d = 0; d < dim; d++) sums[i * dim + d] += values[t * dim + d];
            }
        }
#pragma omp for
        for (int64_t b = 0; b < batch; b++) {
            for (int64_t d = 0; d < dim; d++) {
                float sum = 0.0f;
                for (int64_t i = begins[b]; i < begins[b + 1]; i++) sum += sums[i * dim + d];
                out[b * dim + d] = sum;
            }
        }
    }
}
