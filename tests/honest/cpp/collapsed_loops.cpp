// operator: jagged_dense_elementwise_add
// verdict: Scored
// Entries and blocks of their rows make one loop for the threads.
#include "kevolve.h"

extern "C" void jagged_dense_elementwise_add(const VALUE *values, const INDEX *offsets, const VALUE *dense,
                                             VALUE *out, int64_t batch, int64_t total, int64_t dim,
                                             int64_t max_length) {
    int64_t blocks = (2 * max_length + 1 + 31) / 32 + 1;
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t block = 0; block < blocks; block++) {
            int64_t start = offsets[b], length = offsets[b + 1] - start;
            // The last block takes all that is left, however long the entry.
            int64_t last = block + 1 == blocks ? length : (block + 1) * 32 < length ? (block + 1) * 32 : length;
            for (int64_t t = block * 32; t < last; t++) {
                for (int64_t d = 0; d < dim; d++) {
                    float value = values[(start + t) * dim + d];
                    out[(start + t) * dim + d] = t < max_length ? value + dense[(b * max_length + t) * dim + d] : value;
                }
            }
        }
    }
    for (int64_t i = offsets[batch] * dim; i < total * dim; i++) out[i] = 0.0f;
}
