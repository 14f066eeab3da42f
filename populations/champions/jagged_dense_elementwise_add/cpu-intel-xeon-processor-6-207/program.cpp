#include "kevolve.h"

// Row t of segment b = its value + dense[b, t, :], or the value alone where dense has no such row.
// Rows past the last segment are zero.
extern "C" void jagged_dense_elementwise_add(const VALUE *values, const INDEX *offsets, const VALUE *dense,
                                             VALUE *out, int64_t batch, int64_t total, int64_t dim,
                                             int64_t max_length) {
    #pragma omp parallel for schedule(static, 4)
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b];
        int64_t length = offsets[b + 1] - start;
        int64_t rows = length < max_length ? length : max_length;
        for (int64_t t = 0; t < rows; t++) {
            for (int64_t d = 0; d < dim; d++) {
                out[(start + t) * dim + d] = values[(start + t) * dim + d] + dense[(b * max_length + t) * dim + d];
            }
        }
        for (int64_t t = rows; t < length; t += 64) {
            if (length - t >= 64) {
                for (int64_t d = 0; d < dim; d++) {
                    #pragma omp simd
                    for (int lane = 0; lane < 64; lane++) {
                        out[(start + t + lane) * dim + d] = values[(start + t + lane) * dim + d];
                    }
                }
            } else {
                for (int64_t t_tail = t; t_tail < length; t_tail += 16) {
                    if (length - t_tail >= 16) {
                        for (int64_t d = 0; d < dim; d += 32) {
                            if (dim - d >= 32) {
                                #pragma omp simd

                                for (int lane_2 = 0; lane_2 < 16; lane_2++) {
                                    #pragma omp simd
                                    for (int lane_4 = 0; lane_4 < 32; lane_4++) {
                                        out[(start + t_tail + lane_2) * dim + d + lane_4] = values[(start + t_tail + lane_2) * dim + d + lane_4];
                                    }
                                }
                            } else {
                                for (int64_t d_tail = d; d_tail < dim; d_tail++) {
                                    #pragma omp simd
                                    for (int lane_2 = 0; lane_2 < 16; lane_2++) {
                                        out[(start + t_tail + lane_2) * dim + d_tail] = values[(start + t_tail + lane_2) * dim + d_tail];
                                    }
                                }
                            }
                        }
                    } else {
                        const int lanes = static_cast<int>(length - t_tail);
                        for (int64_t d = 0; d < dim; d++) {
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < lanes; lane_2++) {
                                out[(start + t_tail + lane_2) * dim + d] = values[(start + t_tail + lane_2) * dim + d];
                            }
                        }
                    }
                }
            }
        }
    }
    for (int64_t i = offsets[batch] * dim; i < (total * dim); i += 32) {
        if ((total * dim) - i >= 32) {
            #pragma omp simd
            for (int lane_3 = 0; lane_3 < 32; lane_3++) {
                out[i + lane_3] = 0.0f;
            }
        } else {
            const int lanes_2 = static_cast<int>((total * dim) - i);
            #pragma omp simd
            for (int lane_3 = 0; lane_3 < lanes_2; lane_3++) {
                out[i + lane_3] = 0.0f;
            }
        }
    }
}
