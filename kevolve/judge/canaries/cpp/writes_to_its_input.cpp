// promise: inputs cannot be written to
#include "kevolve.h"

extern "C" void honest(const VALUE *, VALUE *, int64_t, int64_t);

extern "C" void writes_to_its_input(const VALUE *x, VALUE *out, int64_t rows, int64_t dim) {
    honest(x, out, rows, dim);
    const_cast<VALUE *>(x)[0] = 0.0f;
}
