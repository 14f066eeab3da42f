// operator: jagged_layer_norm
// verdict: Scored
// Mean and variance in one pass, by updates that do not cancel, in double.
#include "kevolve.h"

extern "C" void jagged_layer_norm(const VALUE *values, const INDEX *offsets, VALUE *out,
                                  int64_t batch, int64_t total, int64_t dim) {
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b] * dim, end = offsets[b + 1] * dim;
        double mean = 0.0, squares = 0.0;
        for (int64_t i = start; i < end; i++) {
            double value = static_cast<float>(values[i]), difference = value - mean;
            mean += difference / static_cast<double>(i - start + 1);
            squares += difference * (value - mean);
        }
        double scale = 1.0 / sqrt(squares / static_cast<double>(end - start) + 1e-6);
        for (int64_t i = start; i < end; i++) {
            out[i] = static_cast<float>((static_cast<double>(static_cast<float>(values[i])) - mean) * scale);
        }
    }
    for (int64_t i = offsets[batch] * dim; i < total * dim; i++) out[i] = 0.0f;
}
