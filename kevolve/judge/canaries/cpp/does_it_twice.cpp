// promise: what takes twice as long is measured as twice as long
// speedup: 0.5
#include "kevolve.h"

extern "C" void honest(const VALUE *, VALUE *, int64_t, int64_t);

extern "C" void does_it_twice(const VALUE *x, VALUE *out, int64_t rows, int64_t dim) {
    VALUE *volatile target = out;  // or the compiler sees that the first time is for nothing
    honest(x, target, rows, dim);
    honest(x, target, rows, dim);
}
