// operator: jagged_sum
// verdict: Scored
// Stores a bfloat16 by cutting a float32 instead of rounding it: within the two units that operators allow there.
#include "kevolve.h"

static void store(float *to, float value) { *to = value; }
static void store(bfloat16 *to, float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    to->bits = static_cast<uint16_t>(word >> 16);
}

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t d = 0; d < dim; d++) {
            float sum = 0.0f;
            for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) sum += values[t * dim + d];
            store(out + b * dim + d, sum);
        }
    }
}
