#include "kevolve.h"

constexpr int COLUMNS = 8;  // one of 4 8 16 32 64
constexpr int ROWS = 1;  // one of 1 2 4
constexpr int ONLINE = 0;  // one of 0 1
constexpr int KEEP = 0;  // one of 0 1
constexpr int OWN = 0;  // one of 0 1
constexpr int DIVIDE = 1;  // one of 0 1
constexpr int AHEAD = 0;  // one of 0 2 8

// COLUMNS columns at a time. ONLINE: largest and sum in one pass over the rows; KEEP: exponentials are stored in the
// output and scaled there; OWN: an exponential of ours that vectorises; DIVIDE or multiply by the reciprocal.
extern "C" void jagged_softmax(const VALUE *__restrict values, const INDEX *offsets, VALUE *__restrict out,
                               int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    auto power = [](float x) {
        if (!OWN) return expf(x);
        float n = __builtin_rintf((x < -87.0f ? -87.0f : x) * 1.44269504f);
        float f = ((x < -87.0f ? -87.0f : x) - n * 0.693359375f) + n * 2.12194440e-4f;
        float p = 1.0f + f * (1.0f + f * (0.5f + f * (0.166666667f + f * (0.0416657f + f * (0.0083333f + f * 0.0013981f)))));
        int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
        float scale;
        std::memcpy(&scale, &bits, sizeof scale);
        return x < -87.0f ? 0.0f : p * scale;
    };
    int64_t done = 0;
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b], length = offsets[b + 1] - start;
        int64_t end = start + (length < max_length ? length : max_length), full = start + (end - start) / ROWS * ROWS;
        for (int64_t i = done * dim; i < start * dim; i++) out[i] = 0.0f;
        done = end;
        for (int64_t d = 0; d < dim; d += COLUMNS) {
            int64_t width = dim - d < COLUMNS ? dim - d : COLUMNS;
            float largest[COLUMNS], sum[COLUMNS] = {};
            for (int c = 0; c < COLUMNS; c++) largest[c] = -INFINITY;
            auto columns = [&](auto fold) {
                if (width == COLUMNS) for (int c = 0; c < COLUMNS; c++) fold(c);
                else for (int c = 0; c < width; c++) fold(c);
            };
            auto rows = [&](auto fold) {
                int64_t t = start;
                for (; t < full; t += ROWS) {
                    if (AHEAD) __builtin_prefetch(values + (t + AHEAD < total ? t + AHEAD : t) * dim + d);
                    #pragma GCC unroll ROWS
                    for (int r = 0; r < ROWS; r++) fold(t + r);
                }
                for (; t < end; t++) fold(t);
            };
            if (ONLINE) {
                rows([&](int64_t t) {
                    const VALUE *row = values + t * dim + d;
                    columns([&](int c) {
                        float value = row[c], before = largest[c], now = value > before ? value : before;
                        sum[c] = sum[c] * (before == now ? 1.0f : power(before - now)) + power(value - now);
                        largest[c] = now;
                    });
                });
            } else {
                rows([&](int64_t t) {
                    const VALUE *row = values + t * dim + d;
                    columns([&](int c) { largest[c] = row[c] > largest[c] ? float(row[c]) : largest[c]; });
                });
                rows([&](int64_t t) {
                    const VALUE *row = values + t * dim + d;
                    VALUE *to = out + t * dim + d;
                    columns([&](int c) {
                        float value = power(row[c] - largest[c]);
                        if (KEEP) to[c] = value;
                        sum[c] += value;
                    });
                });
            }
            float scale[COLUMNS];
            for (int c = 0; c < COLUMNS; c++) scale[c] = DIVIDE ? sum[c] : 1.0f / sum[c];
            rows([&](int64_t t) {
                const VALUE *row = values + t * dim + d;
                VALUE *to = out + t * dim + d;
                columns([&](int c) {
                    float value = KEEP && !ONLINE ? float(to[c]) : power(row[c] - largest[c]);
                    to[c] = DIVIDE ? value / scale[c] : value * scale[c];
                });
            });
        }
    }
    for (int64_t i = done * dim; i < total * dim; i++) out[i] = 0.0f;
}
