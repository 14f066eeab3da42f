// operator: jagged_sum
// In a raw string a backslash at the end of a line stays; the screen takes it away, and sees the string end too early.
#include "kevolve.h"
static const char *kText = R"x( )\
x" /* )x";
#include <cstdio>
// */

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    if (dim < 0) *(const char **)out = kText;
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t d = 0; d < dim; d++) {
            float sum = 0.0f;
            for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) sum += values[t * dim + d];
            out[b * dim + d] = sum;
        }
    }
}
