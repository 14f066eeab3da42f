// promise: an honest program is scored, and what is timed against itself comes out as 1
// speedup: 1
#include "kevolve.h"

// With what each addition loses kept apart: so much arithmetic that a second time costs as much as the first.
extern "C" void honest(const VALUE *x, VALUE *out, int64_t rows, int64_t dim) {
    for (int64_t row = 0; row < rows; row++) {
        float total = 0.0f, lost = 0.0f;
        for (int64_t d = 0; d < dim; d++) {
            float term = x[row * dim + d] - lost, sum = total + term;
            lost = (sum - total) - term;
            total = sum;
        }
        out[row] = total;
    }
}
