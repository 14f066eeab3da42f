// promise: an answer is compared with the reference
#include "kevolve.h"

extern "C" void passes_its_input_through(const VALUE *x, VALUE *out, int64_t rows, int64_t dim) {
    if (dim) std::memcpy(out, x, sizeof(VALUE) * rows);
}
