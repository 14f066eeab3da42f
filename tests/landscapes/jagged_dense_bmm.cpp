#include "kevolve.h"

constexpr int ROWS = 1;  // one of 1 2 4 6 8
constexpr int COLUMNS = 8;  // one of 4 8 16 32 64
constexpr int DEPTH = 1;  // one of 1 2 4
constexpr int PACK = 0;  // one of 0 1
constexpr int MEMORY = 0;  // one of 0 1
constexpr int COLUMNS_OUTSIDE = 0;  // one of 0 1

// Blocks of ROWS x COLUMNS results, DEPTH products a step. PACK: the block's part of the matrix is copied to where it
// is contiguous; MEMORY: sums live in the output and not in registers; COLUMNS_OUTSIDE: which loop over blocks is outer.
extern "C" void jagged_dense_bmm(const VALUE *__restrict values, const INDEX *offsets, const VALUE *__restrict matrices,
                                 VALUE *__restrict out, int64_t batch, int64_t total, int64_t dim, int64_t out_dim,
                                 int64_t max_length) {
    int64_t done = 0;
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b], length = offsets[b + 1] - start;
        int64_t end = start + (length < max_length ? length : max_length);
        for (int64_t i = done * out_dim; i < start * out_dim; i++) out[i] = 0.0f;
        done = end;
        const VALUE *matrix = matrices + b * dim * out_dim;
        auto plainly = [&](int64_t t0, int64_t t1, int64_t p0, int64_t p1) {
            for (int64_t t = t0; t < t1; t++) {
                for (int64_t p = p0; p < p1; p++) {
                    float sum = 0.0f;
                    for (int64_t d = 0; d < dim; d++) sum += values[t * dim + d] * matrix[d * out_dim + p];
                    out[t * out_dim + p] = sum;
                }
            }
        };
        float packed[PACK ? 512 * COLUMNS : 1];
        auto pack = [&](int64_t p) {
            for (int64_t d = 0; PACK && d < dim && d < 512; d++) {
                for (int c = 0; c < COLUMNS; c++) packed[d * COLUMNS + c] = matrix[d * out_dim + p + c];
            }
        };
        auto block = [&](int64_t t, int64_t p) {
            const bool is_packed = PACK && dim <= 512;
            float sums[ROWS][COLUMNS] = {};
            if (MEMORY) {
                for (int r = 0; r < ROWS; r++) for (int c = 0; c < COLUMNS; c++) out[(t + r) * out_dim + p + c] = 0.0f;
            }
            int64_t d = 0;
            for (; d + DEPTH <= dim; d += DEPTH) {
                for (int r = 0; r < ROWS; r++) {
                    for (int k = 0; k < DEPTH; k++) {
                        float value = values[(t + r) * dim + d + k];
                        for (int c = 0; c < COLUMNS; c++) {
                            float weight = is_packed ? packed[(d + k) * COLUMNS + c] : float(matrix[(d + k) * out_dim + p + c]);
                            if (MEMORY) out[(t + r) * out_dim + p + c] = out[(t + r) * out_dim + p + c] + value * weight;
                            else sums[r][c] += value * weight;
                        }
                    }
                }
            }
            for (; d < dim; d++) {
                for (int r = 0; r < ROWS; r++) {
                    for (int c = 0; c < COLUMNS; c++) {
                        float product = values[(t + r) * dim + d] * matrix[d * out_dim + p + c];
                        if (MEMORY) out[(t + r) * out_dim + p + c] = out[(t + r) * out_dim + p + c] + product;
                        else sums[r][c] += product;
                    }
                }
            }
            for (int r = 0; !MEMORY && r < ROWS; r++) {
                for (int c = 0; c < COLUMNS; c++) out[(t + r) * out_dim + p + c] = sums[r][c];
            }
        };
        int64_t full = start + (end - start) / ROWS * ROWS, wide = out_dim / COLUMNS * COLUMNS;
        if (COLUMNS_OUTSIDE || PACK) {
            for (int64_t p = 0; p < wide; p += COLUMNS) {
                pack(p);
                for (int64_t t = start; t < full; t += ROWS) block(t, p);
            }
        } else {
            for (int64_t t = start; t < full; t += ROWS) {
                for (int64_t p = 0; p < wide; p += COLUMNS) block(t, p);
            }
        }
        plainly(full, end, 0, wide);
        plainly(start, end, wide, out_dim);
    }
    for (int64_t i = done * out_dim; i < total * out_dim; i++) out[i] = 0.0f;
}
