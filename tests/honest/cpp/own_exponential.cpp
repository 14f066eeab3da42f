// operator: jagged_softmax
// verdict: Scored
// An exponential of its own that vectorises: a power of two times a polynomial, good to two units in the last place.
#include "kevolve.h"

static const float kTerms[] = {1.0f, 1.0f, 0.5f, 1.0f / 6.0f, 1.0f / 24.0f, 1.0f / 120.0f, 1.0f / 720.0f};

static inline float power(float x) {
    float clamped = x > -87.0f ? x : -87.0f;
    float whole = rintf(clamped * 1.44269504f);
    float rest = (clamped - whole * 0.693359375f) + whole * 2.12194440e-4f;
    float result = 1.0f / 5040.0f;
    for (int n = 6; n >= 0; n--) result = result * rest + kTerms[n];
    int32_t bits = (static_cast<int32_t>(whole) + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    float value = result * scale;
    return x > -87.0f ? value : x != x ? x : 0.0f;
}

extern "C" void jagged_softmax(const VALUE *values, const INDEX *offsets, VALUE *out,
                               int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    memset(static_cast<void *>(out), 0, total * dim * sizeof(VALUE));
#pragma omp parallel for schedule(dynamic, 2)
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b], length = offsets[b + 1] - start;
        int64_t end = start + (length < max_length ? length : max_length);
        for (int64_t d = 0; d < dim; d++) {
            float largest = -INFINITY, sum = 0.0f;
            for (int64_t t = start; t < end; t++) largest = fmaxf(largest, values[t * dim + d]);
            for (int64_t t = start; t < end; t++) sum += power(values[t * dim + d] - largest);
            for (int64_t t = start; t < end; t++) out[t * dim + d] = power(values[t * dim + d] - largest) / sum;
        }
    }
}
