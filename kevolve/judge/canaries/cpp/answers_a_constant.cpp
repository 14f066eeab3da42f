// promise: an answer is compared with the reference
#include "kevolve.h"

extern "C" void answers_a_constant(const VALUE *, VALUE *out, int64_t rows, int64_t) {
    for (int64_t row = 0; row < rows; row++) out[row] = 0.0f;
}
