#include "kevolve.h"

// Row t of segment b = dense[b, t, :]. Rows that dense does not have are zero.
extern "C" void dense_to_jagged(const VALUE *dense, const INDEX *offsets, VALUE *out,
                                int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    int64_t filled = 0;
    bool ordered = true;
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b];
        int64_t length = offsets[b + 1] - start;
        int64_t rows = length < max_length ? length : max_length;
        const int64_t row_first = (start + 0) * dim, row_end = (start + rows) * dim;
        if (row_first < row_end) {
            ordered = ordered && row_first >= filled && row_end <= (total * dim);
            for (int64_t i = filled; ordered && i < row_first; i++) {
                out[i] = 0.0f;
            }
            filled = ordered ? row_end : 0;
        }
    }
    #pragma omp parallel for schedule(static, 4)
    for (int64_t i = filled; i < total * dim; i++) {
        out[i] = 0.0f;
    }
    #pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < batch; b += 16) {
        if (batch - b >= 16) {
            #pragma omp simd
            for (int lane = 0; lane < 16; lane++) {
                int64_t start = offsets[b + lane];
                int64_t length = offsets[b + lane + 1] - start;
                int64_t rows = length < max_length ? length : max_length;
                if (0 < rows) {
                    const int64_t t = 0;
                    const int64_t d = 0;
                    stream_copy(&out[(start + t) * dim + d], &dense[((b + lane) * max_length + t) * dim + d], rows * dim);
                }
            }
        } else {
            const int lanes = static_cast<int>(batch - b);
            #pragma omp simd
            for (int lane = 0; lane < lanes; lane++) {
                int64_t start = offsets[b + lane];
                int64_t length = offsets[b + lane + 1] - start;
                int64_t rows = length < max_length ? length : max_length;
                if (0 < rows) {
                    const int64_t t = 0;
                    const int64_t d = 0;
                    stream_copy(&out[(start + t) * dim + d], &dense[((b + lane) * max_length + t) * dim + d], rows * dim);
                }
            }
        }
    }
}
