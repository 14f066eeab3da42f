// promise: timed calls have fresh content, and their answers are checked
#include "kevolve.h"

extern "C" void honest(const VALUE *, VALUE *, int64_t, int64_t);

// Right on the first calls of a size, which may be watched.
extern "C" void replays_its_last_answer(const VALUE *x, VALUE *out, int64_t rows, int64_t dim) {
    static VALUE kept[4096];
    static int64_t known_rows = -1, known_dim = -1, calls = 0;
    if (rows != known_rows || dim != known_dim) calls = 0;
    known_rows = rows;
    known_dim = dim;
    if (++calls <= 12) {
        honest(x, out, rows, dim);
        std::memcpy(kept, out, sizeof(VALUE) * rows);
    } else {
        std::memcpy(out, kept, sizeof(VALUE) * rows);
    }
}
