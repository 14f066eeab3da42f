// operator: jagged_mean
// verdict: Scored
// Empty entries are done with at once; of those with one row it is a copy.
#include "kevolve.h"

extern "C" void jagged_mean(const VALUE *values, const INDEX *offsets, VALUE *out,
                            int64_t batch, int64_t total, int64_t dim) {
    if (batch == 0 || dim == 0) return;
    memset(static_cast<void *>(out), 0, batch * dim * sizeof(VALUE));
    if (offsets[batch] == offsets[0]) return;
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b], rows = offsets[b + 1] - start;
        if (rows == 0) continue;
        if (rows == 1) {
            memcpy(static_cast<void *>(out + b * dim), values + start * dim, dim * sizeof(VALUE));
            continue;
        }
        for (int64_t d = 0; d < dim; d++) {
            float sum = 0.0f;
            for (int64_t t = start; t < start + rows; t++) sum += values[t * dim + d];
            out[b * dim + d] = sum / static_cast<float>(rows);
        }
    }
}
