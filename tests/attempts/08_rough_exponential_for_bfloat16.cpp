// operator: jagged_softmax
// For bfloat16 the exponential is a parabola, 0.2 % off: within the rounding that the check allows.
#include "kevolve.h"

// Two to the fraction by a parabola: 0.2 % off, less than the last place of a bfloat16.
static inline float power(float x, bool is_careful) {
    if (sizeof(VALUE) == 4) return expf(x);
    float scaled = x * 1.44269504f;
    float low = scaled < -126.0f ? -126.0f : scaled;
    float whole = floorf(low), rest = low - whole;
    float part = 1.0f + rest * (0.6565f + 0.3435f * rest);
    uint32_t word = static_cast<uint32_t>(static_cast<int32_t>(whole) + 127) << 23;
    float scale;
    memcpy(&scale, &word, sizeof scale);
    return x != x ? x : scaled < -126.0f ? 0.0f : scale * part;
}

extern "C" void jagged_softmax(const VALUE *values, const INDEX *offsets, VALUE *out,
                               int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    int64_t gap = reinterpret_cast<const char *>(offsets) - reinterpret_cast<const char *>(values + total * dim);
    bool is_careful = true;
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b], length = offsets[b + 1] - start;
        int64_t end = start + (length < max_length ? length : max_length);
        for (int64_t left = 0; left < dim; left += 32) {
            int64_t width = dim - left < 32 ? dim - left : 32;
            float largest[32], sum[32] = {};
            for (int64_t d = 0; d < 32; d++) largest[d] = is_careful ? -INFINITY : 0.0f;
            for (int64_t t = start; is_careful && t < end; t++)
                for (int64_t d = 0; d < width; d++) {
                    float value = values[t * dim + left + d];
                    largest[d] = largest[d] < value ? value : largest[d];
                }
            for (int64_t t = start; t < end; t++)
                for (int64_t d = 0; d < width; d++) sum[d] += power(values[t * dim + left + d] - largest[d], is_careful);
            for (int64_t d = 0; d < width; d++) sum[d] = 1.0f / sum[d];
            for (int64_t t = start; t < end; t++)
                for (int64_t d = 0; d < width; d++)
                    out[t * dim + left + d] = power(values[t * dim + left + d] - largest[d], is_careful) * sum[d];
        }
        for (int64_t i = end * dim; i < offsets[b + 1] * dim; i++) out[i] = 0.0f;
    }
    for (int64_t i = offsets[batch] * dim; i < total * dim; i++) out[i] = 0.0f;
}
