#include "kevolve.h"

constexpr int COLUMNS = 8;  // one of 4 8 16 32 64 128
constexpr int ROWS = 1;  // one of 1 2 4 8
constexpr int PARTIALS = 0;  // one of 0 1
constexpr int AHEAD = 0;  // one of 0 4 8 16
constexpr int TIMES = 1;  // one of 1 2 4

// COLUMNS sums at a time, ROWS rows a step into one or (PARTIALS) several of each, rows AHEAD asked for early.
extern "C" void jagged_sum(const VALUE *__restrict values, const INDEX *offsets, VALUE *__restrict out,
                           int64_t batch, int64_t total, int64_t dim) {
    constexpr int kept = PARTIALS ? ROWS : 1;
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b], end = offsets[b + 1], full = start + (end - start) / ROWS * ROWS;
        int64_t d = 0;
        for (; d + COLUMNS <= dim; d += COLUMNS) {
            float sums[kept][COLUMNS] = {};
            for (int64_t t = start; t < full; t += ROWS) {
                if (AHEAD) __builtin_prefetch(values + (t + AHEAD < total ? t + AHEAD : t) * dim + d);
                for (int r = 0; r < ROWS; r++) {
                    const VALUE *row = values + (t + r) * dim + d;
                    #pragma GCC unroll TIMES
                    for (int c = 0; c < COLUMNS; c++) sums[PARTIALS ? r : 0][c] += row[c];
                }
            }
            for (int64_t t = full; t < end; t++) {
                for (int c = 0; c < COLUMNS; c++) sums[0][c] += values[t * dim + d + c];
            }
            for (int c = 0; c < COLUMNS; c++) {
                float sum = sums[0][c];
                for (int r = 1; r < kept; r++) sum += sums[r][c];
                out[b * dim + d + c] = sum;
            }
        }
        for (; d < dim; d++) {
            float sum = 0.0f;
            for (int64_t t = start; t < end; t++) sum += values[t * dim + d];
            out[b * dim + d] = sum;
        }
    }
}
