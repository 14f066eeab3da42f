// operator: jagged_sum
// In a part that is skipped, an apostrophe without its partner hides the beginning of a comment from the compiler.
#include "kevolve.h"
#if 0
don't /*
#endif
#include <cstdio>
// */

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t d = 0; d < dim; d++) {
            float sum = 0.0f;
            for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) sum += values[t * dim + d];
            out[b * dim + d] = sum;
        }
    }
}
