#include "kevolve.h"

constexpr int LANES = 8;  // one of 1 4 8 16 32 64
constexpr int PARTIALS = 1;  // one of 1 2 4 8
constexpr int ONE_PASS = 0;  // one of 0 1
constexpr int STREAM = 0;  // one of 0 1
constexpr int TIMES = 1;  // one of 1 2 4
constexpr int AHEAD = 0;  // one of 0 64

// PARTIALS times LANES running sums. ONE_PASS: sum and squares together, about the row's first number; STREAM: the
// answer goes past the cache; TIMES: the last loop unrolled; AHEAD: numbers asked for so early.
extern "C" void jagged_layer_norm(const VALUE *__restrict values, const INDEX *offsets, VALUE *__restrict out,
                                  int64_t batch, int64_t total, int64_t dim) {
    constexpr int step = LANES * PARTIALS;
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b] * dim, end = offsets[b + 1] * dim;
        if (start == end) continue;
        float count = end - start, shift = ONE_PASS ? float(values[start]) : 0.0f;
        auto folded = [&](auto part) {
            float sums[PARTIALS][LANES] = {};
            int64_t i = start;
            for (; i + step <= end; i += step) {
                if (AHEAD) __builtin_prefetch(values + i + AHEAD);
                for (int p = 0; p < PARTIALS; p++) {
                    for (int l = 0; l < LANES; l++) sums[p][l] += part(values[i + p * LANES + l]);
                }
            }
            float sum = 0.0f;
            for (; i < end; i++) sum += part(values[i]);
            for (int p = 0; p < PARTIALS; p++) {
                for (int l = 0; l < LANES; l++) sum += sums[p][l];
            }
            return sum;
        };
        float mean, variance;
        if (ONE_PASS) {
            float sums[PARTIALS][LANES] = {}, squares[PARTIALS][LANES] = {}, sum = 0.0f, square = 0.0f;
            int64_t i = start;
            for (; i + step <= end; i += step) {
                if (AHEAD) __builtin_prefetch(values + i + AHEAD);
                for (int p = 0; p < PARTIALS; p++) {
                    for (int l = 0; l < LANES; l++) {
                        float value = values[i + p * LANES + l] - shift;
                        sums[p][l] += value;
                        squares[p][l] += value * value;
                    }
                }
            }
            for (; i < end; i++) {
                float value = values[i] - shift;
                sum += value;
                square += value * value;
            }
            for (int p = 0; p < PARTIALS; p++) {
                for (int l = 0; l < LANES; l++) sum += sums[p][l], square += squares[p][l];
            }
            mean = sum / count;
            variance = square / count - mean * mean;
            mean += shift;
        } else {
            mean = folded([](float value) { return value; }) / count;
            variance = folded([&](float value) { return (value - mean) * (value - mean); }) / count;
        }
        float scale = 1.0f / sqrtf(variance + 1e-6f);
        if (STREAM) {
            VALUE piece[256];
            for (int64_t i = start; i < end; i += 256) {
                int64_t size = end - i < 256 ? end - i : 256;
                #pragma GCC unroll TIMES
                for (int64_t k = 0; k < size; k++) piece[k] = (values[i + k] - mean) * scale;
                stream_copy(out + i, piece, size);
            }
        } else {
            #pragma GCC unroll TIMES
            for (int64_t i = start; i < end; i++) out[i] = (values[i] - mean) * scale;
        }
    }
    for (int64_t i = offsets[batch] * dim; i < total * dim; i++) out[i] = 0.0f;
}
