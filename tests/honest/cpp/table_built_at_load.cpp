// operator: jagged_mean
// verdict: Scored
// A table of reciprocals is made while the program is loaded: it depends on no input.
#include "kevolve.h"

struct Reciprocals {
    float of[4096];

    Reciprocals() {
        of[0] = 0.0f;
        for (int n = 1; n < 4096; n++) of[n] = 1.0f / static_cast<float>(n);
    }
};
static const Reciprocals reciprocals;

extern "C" void jagged_mean(const VALUE *values, const INDEX *offsets, VALUE *out,
                            int64_t batch, int64_t total, int64_t dim) {
#pragma omp parallel for schedule(dynamic, 8)
    for (int64_t b = 0; b < batch; b++) {
        int64_t rows = offsets[b + 1] - offsets[b];
        float share = rows < 4096 ? reciprocals.of[rows] : 1.0f / static_cast<float>(rows);
        for (int64_t d = 0; d < dim; d++) {
            float sum = 0.0f;
            for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) sum += values[t * dim + d];
            out[b * dim + d] = sum * share;
        }
    }
}
