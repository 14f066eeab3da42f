// operator: jagged_mean
// verdict: Scored
// Meets empty entries by throwing and catching.
#include <vector>

#include "kevolve.h"

struct Empty {
    int64_t entry;
};

static float share_of(const INDEX *offsets, int64_t b) {
    if (offsets[b] == offsets[b + 1]) throw Empty{b};
    return 1.0f / static_cast<float>(offsets[b + 1] - offsets[b]);
}

extern "C" void jagged_mean(const VALUE *values, const INDEX *offsets, VALUE *out,
                            int64_t batch, int64_t total, int64_t dim) {
    for (int64_t b = 0; b < batch; b++) {
        try {
            float share = share_of(offsets, b);
            for (int64_t d = 0; d < dim; d++) {
                float sum = 0.0f;
                for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) sum += values[t * dim + d];
                out[b * dim + d] = sum * share;
            }
        } catch (const Empty &empty) {
            for (int64_t d = 0; d < dim; d++) out[empty.entry * dim + d] = 0.0f;
        }
    }
}
