// operator: jagged_sum
// verdict: Scored
// Keeps a workspace between calls: partial sums of eight interleaved groups of rows, joined at the end.
#include <vector>

#include "kevolve.h"

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    static std::vector<float> workspace;
    if (static_cast<int64_t>(workspace.size()) < 8 * dim) workspace.resize(8 * dim);
    float *parts = workspace.data();
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t i = 0; i < 8 * dim; i++) parts[i] = 0.0f;
        for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) {
            float *part = parts + (t & 7) * dim;
            for (int64_t d = 0; d < dim; d++) part[d] += values[t * dim + d];
        }
        for (int64_t d = 0; d < dim; d++) {
            float sum = 0.0f;
            for (int64_t i = 0; i < 8; i++) sum += parts[i * dim + d];
            out[b * dim + d] = sum;
        }
    }
}
