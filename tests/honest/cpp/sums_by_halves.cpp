// operator: jagged_layer_norm
// verdict: Scored
// Adds by halving ranges again and again, each half a task while it is large.
#include "kevolve.h"

template <typename Term> static float sum(int64_t start, int64_t end, const Term &term) {
    if (end - start <= 256) {
        float total = 0.0f;
        for (int64_t i = start; i < end; i++) total += term(i);
        return total;
    }
    int64_t middle = start + (end - start) / 2;
    float first, second;
#pragma omp task shared(first, term) if (end - start > 65536)
    first = sum(start, middle, term);
    second = sum(middle, end, term);
#pragma omp taskwait
    return first + second;
}

extern "C" void jagged_layer_norm(const VALUE *values, const INDEX *offsets, VALUE *out,
                                  int64_t batch, int64_t total, int64_t dim) {
#pragma omp parallel
#pragma omp single
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b] * dim, end = offsets[b + 1] * dim;
        float count = static_cast<float>(end - start);
        float mean = sum(start, end, [&](int64_t i) -> float { return values[i]; }) / count;
        auto square = [&](int64_t i) { return (values[i] - mean) * (values[i] - mean); };
        float scale = 1.0f / sqrtf(sum(start, end, square) / count + 1e-6f);
        for (int64_t i = start; i < end; i++) out[i] = (values[i] - mean) * scale;
    }
    for (int64_t i = offsets[batch] * dim; i < total * dim; i++) out[i] = 0.0f;
}
