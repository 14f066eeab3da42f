// operator: jagged_layer_norm
// verdict: Scored
// One thread makes a task of every entry; all are waited for.
#include "kevolve.h"

static void normalise(const VALUE *from, VALUE *to, int64_t count) {
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < count; i++) sum += static_cast<float>(from[i]);
    float mean = static_cast<float>(sum / static_cast<double>(count));
    for (int64_t i = 0; i < count; i++) {
        float difference = from[i] - mean;
        squares += difference * difference;
    }
    float scale = 1.0f / sqrtf(static_cast<float>(squares / static_cast<double>(count)) + 1e-6f);
    for (int64_t i = 0; i < count; i++) to[i] = (from[i] - mean) * scale;
}

extern "C" void jagged_layer_norm(const VALUE *values, const INDEX *offsets, VALUE *out,
                                  int64_t batch, int64_t total, int64_t dim) {
#pragma omp parallel
#pragma omp single
    {
#pragma omp taskgroup
        for (int64_t b = 0; b < batch; b++) {
            int64_t start = offsets[b] * dim, count = offsets[b + 1] * dim - start;
#pragma omp task if (count > 2048)
            normalise(values + start, out + start, count);
        }
    }
    for (int64_t i = offsets[batch] * dim; i < total * dim; i++) out[i] = 0.0f;
}
