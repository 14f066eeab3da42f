#include "kevolve.h"

// Row t of the output = row t of values times the matrix of its segment. Only the first max_length rows
// of a segment take part; every other row of the output is zero.
extern "C" __attribute__((target("prefer-vector-width=512"))) void jagged_dense_bmm(const VALUE *values, const INDEX *offsets, const VALUE *matrices, VALUE *out,
                                 int64_t batch, int64_t total, int64_t dim, int64_t out_dim,
                                 int64_t max_length) {
    if (0 < total * out_dim) {
        const int64_t i = 0;
        stream_zero(&out[i], total * out_dim);
    }
    #pragma omp parallel for schedule(dynamic, 8)
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b];
        int64_t length = offsets[b + 1] - start;
        int64_t end = start + (length < max_length ? length : max_length);
        const int64_t t_full = start + (end - start) / 4 * 4;
        #pragma GCC unroll 8
        for (int64_t t = start; t < t_full; t += 4) {
            const int64_t t_plus1 = t + 1;
            const int64_t t_plus2 = t + 2;
            const int64_t t_plus3 = t + 3;
            for (int64_t p = 0; p < out_dim; p += 32) {
                if (out_dim - p >= 32) {
                    alignas(64) float sum[32];
                    alignas(64) float sum_row1[32];
                    alignas(64) float sum_row2[32];
                    alignas(64) float sum_row3[32];
                    #pragma GCC ivdep
                    #pragma GCC unroll 8
                    for (int lane = 0; lane < 32; lane++) {
                        sum[lane] = 0.0f;
                        sum_row1[lane] = 0.0f;
                        sum_row2[lane] = 0.0f;
                        sum_row3[lane] = 0.0f;
                    }
                    for (int64_t d = 0; d < dim; d++) {
                        #pragma GCC ivdep
                        #pragma GCC unroll 8
                        for (int lane = 0; lane < 32; lane++) {
                            sum[lane] += values[t * dim + d] * matrices[(b * dim + d) * out_dim + p + lane];
                            sum_row1[lane] += values[t_plus1 * dim + d] * matrices[(b * dim + d) * out_dim + p + lane];
                            sum_row2[lane] += values[t_plus2 * dim + d] * matrices[(b * dim + d) * out_dim + p + lane];
                            sum_row3[lane] += values[t_plus3 * dim + d] * matrices[(b * dim + d) * out_dim + p + lane];
                        }
                    }
                    #pragma GCC ivdep
                    #pragma GCC unroll 8
                    for (int lane = 0; lane < 32; lane++) {
                        out[t * out_dim + p + lane] = sum[lane];
                        out[t_plus1 * out_dim + p + lane] = sum_row1[lane];
                        out[t_plus2 * out_dim + p + lane] = sum_row2[lane];
                        out[t_plus3 * out_dim + p + lane] = sum_row3[lane];
                    }
                } else {
                    for (int64_t p_tail = p; p_tail < out_dim; p_tail += 16) {
                        if (out_dim - p_tail >= 16) {
                            alignas(64) float sum[16];
                            alignas(64) float sum_row1[16];
                            alignas(64) float sum_row2[16];
                            alignas(64) float sum_row3[16];
                            #pragma GCC ivdep
                            #pragma GCC unroll 4
                            for (int lane_2 = 0; lane_2 < 16; lane_2++) {
                                sum[lane_2] = 0.0f;
                                sum_row1[lane_2] = 0.0f;
                                sum_row2[lane_2] = 0.0f;
                                sum_row3[lane_2] = 0.0f;
                            }
                            for (int64_t d = 0; d < dim; d++) {
                                #pragma GCC ivdep
                                #pragma GCC unroll 4
                                for (int lane_2 = 0; lane_2 < 16; lane_2++) {
                                    sum[lane_2] += values[t * dim + d] * matrices[(b * dim + d) * out_dim + p_tail + lane_2];
                                    sum_row1[lane_2] += values[t_plus1 * dim + d] * matrices[(b * dim + d) * out_dim + p_tail + lane_2];
                                    sum_row2[lane_2] += values[t_plus2 * dim + d] * matrices[(b * dim + d) * out_dim + p_tail + lane_2];
                                    sum_row3[lane_2] += values[t_plus3 * dim + d] * matrices[(b * dim + d) * out_dim + p_tail + lane_2];
                                }
                            }
                            #pragma GCC ivdep
                            #pragma GCC unroll 4
                            for (int lane_2 = 0; lane_2 < 16; lane_2++) {
                                out[t * out_dim + p_tail + lane_2] = sum[lane_2];
                                out[t_plus1 * out_dim + p_tail + lane_2] = sum_row1[lane_2];
                                out[t_plus2 * out_dim + p_tail + lane_2] = sum_row2[lane_2];
                                out[t_plus3 * out_dim + p_tail + lane_2] = sum_row3[lane_2];
                            }
                        } else {
                            const int lanes = static_cast<int>(out_dim - p_tail);
                            alignas(64) float sum[16];
                            alignas(64) float sum_row1[16];
                            alignas(64) float sum_row2[16];
                            alignas(64) float sum_row3[16];
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < lanes; lane_2++) {
                                sum[lane_2] = 0.0f;
                                sum_row1[lane_2] = 0.0f;
                                sum_row2[lane_2] = 0.0f;
                                sum_row3[lane_2] = 0.0f;
                            }
                            for (int64_t d = 0; d < dim; d++) {
                                #pragma omp simd
                                for (int lane_2 = 0; lane_2 < lanes; lane_2++) {
                                    sum[lane_2] += values[t * dim + d] * matrices[(b * dim + d) * out_dim + p_tail + lane_2];
                                    sum_row1[lane_2] += values[t_plus1 * dim + d] * matrices[(b * dim + d) * out_dim + p_tail + lane_2];
                                    sum_row2[lane_2] += values[t_plus2 * dim + d] * matrices[(b * dim + d) * out_dim + p_tail + lane_2];
                                    sum_row3[lane_2] += values[t_plus3 * dim + d] * matrices[(b * dim + d) * out_dim + p_tail + lane_2];
                                }
                            }
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < lanes; lane_2++) {
                                out[t * out_dim + p_tail + lane_2] = sum[lane_2];
                                out[t_plus1 * out_dim + p_tail + lane_2] = sum_row1[lane_2];
                                out[t_plus2 * out_dim + p_tail + lane_2] = sum_row2[lane_2];
                                out[t_plus3 * out_dim + p_tail + lane_2] = sum_row3[lane_2];
                            }
                        }
                    }
                }
            }
        }
        for (int64_t t = t_full; t < end; t++) {
            for (int64_t p = 0; p < out_dim; p += 32) {
                if (out_dim - p >= 32) {
                    alignas(64) float sum[32];
                    #pragma omp simd
                    for (int lane = 0; lane < 32; lane++) {
                        sum[lane] = 0.0f;
                    }
                    for (int64_t d = 0; d < dim; d++) {
                        #pragma omp simd
                        for (int lane = 0; lane < 32; lane++) {
                            sum[lane] += values[t * dim + d] * matrices[(b * dim + d) * out_dim + p + lane];
                        }
                    }
                    #pragma omp simd
                    for (int lane = 0; lane < 32; lane++) {
                        out[t * out_dim + p + lane] = sum[lane];
                    }
                } else {
                    for (int64_t p_tail = p; p_tail < out_dim; p_tail += 16) {
                        if (out_dim - p_tail >= 16) {
                            alignas(64) float sum[16];
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < 16; lane_2++) {
                                sum[lane_2] = 0.0f;
                            }
                            for (int64_t d = 0; d < dim; d++) {
                                #pragma omp simd
                                for (int lane_2 = 0; lane_2 < 16; lane_2++) {
                                    sum[lane_2] += values[t * dim + d] * matrices[(b * dim + d) * out_dim + p_tail + lane_2];
                                }
                            }
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < 16; lane_2++) {
                                out[t * out_dim + p_tail + lane_2] = sum[lane_2];
                            }
                        } else {
                            const int lanes = static_cast<int>(out_dim - p_tail);
                            alignas(64) float sum[16];
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < lanes; lane_2++) {
                                sum[lane_2] = 0.0f;
                            }
                            for (int64_t d = 0; d < dim; d++) {
                                #pragma omp simd
                                for (int lane_2 = 0; lane_2 < lanes; lane_2++) {
                                    sum[lane_2] += values[t * dim + d] * matrices[(b * dim + d) * out_dim + p_tail + lane_2];
                                }
                            }
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < lanes; lane_2++) {
                                out[t * out_dim + p_tail + lane_2] = sum[lane_2];
                            }
                        }
                    }
                }
            }
        }
    }
}
