#include "kevolve.h"

// Each segment minus its mean, over its standard deviation: both over all of its rows and columns.
// Rows past the last segment are zero.
extern "C" void jagged_layer_norm(const VALUE *values, const INDEX *offsets, VALUE *out,
                                  int64_t batch, int64_t total, int64_t dim) {
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b] * dim;
        int64_t end = offsets[b + 1] * dim;
        float count = end - start;
        float sum = 0.0f;
        for (int64_t i = start; i < end; i++) {
            sum += values[i];
        }
        float mean = sum / count;
        float squares = 0.0f;
        for (int64_t i = start; i < end; i++) {
            float difference = values[i] - mean;
            squares += difference * difference;
        }
        float scale = 1.0f / sqrtf(squares / count + 1e-6f);
        for (int64_t i = start; i < end; i++) {
            out[i] = (values[i] - mean) * scale;
        }
    }
    for (int64_t i = offsets[batch] * dim; i < total * dim; i++) {
        out[i] = 0.0f;
    }
}
