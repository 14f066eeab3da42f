// promise: a write beside the outputs is seen
#include "kevolve.h"

extern "C" void honest(const VALUE *, VALUE *, int64_t, int64_t);

extern "C" void writes_beside_its_output(const VALUE *x, VALUE *out, int64_t rows, int64_t dim) {
    honest(x, out, rows, dim);
    out[rows] = 0.0f;
}
