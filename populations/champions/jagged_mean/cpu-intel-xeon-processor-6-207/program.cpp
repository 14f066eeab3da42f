#include "kevolve.h"

// out[b, d] = mean of values[t, d] over the rows t of segment b, zero if it has none.
template <typename SIZE>
static void jagged_mean_sized(const VALUE *__restrict__ values, const INDEX *__restrict__ offsets, VALUE *__restrict__ out,
                            SIZE batch, SIZE total, SIZE dim) {
    #pragma omp parallel for schedule(dynamic, 4)
    for (SIZE b = 0; b < batch; b++) {
        SIZE start = offsets[b];
        SIZE end = offsets[b + 1];
        float count = end > start ? end - start : 1;
        #pragma GCC unroll 4
        for (SIZE d = 0; d < dim; d += 32) {
            if (dim - d >= 32) {
                alignas(64) float sum[32];
                #pragma omp simd
                for (int lane = 0; lane < 32; lane++) {
                    sum[lane] = 0.0f;
                }
                for (SIZE t = start; t < end; t++) {
                    #pragma omp simd
                    for (int lane = 0; lane < 32; lane++) {
                        sum[lane] += values[t * dim + d + lane];
                    }
                }
                #pragma omp simd
                for (int lane = 0; lane < 32; lane++) {
                    out[b * dim + d + lane] = sum[lane] / count;
                }
            } else {
                for (SIZE d_tail = d; d_tail < dim; d_tail += 32) {
                    if (dim - d_tail >= 32) {
                        alignas(64) float sum[32];
                        #pragma omp simd
                        for (int lane_2 = 0; lane_2 < 32; lane_2++) {
                            sum[lane_2] = 0.0f;
                        }
                        for (SIZE t = start; t < end; t++) {
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < 32; lane_2++) {
                                sum[lane_2] += values[t * dim + d_tail + lane_2];
                            }
                        }
                        #pragma omp simd
                        for (int lane_2 = 0; lane_2 < 32; lane_2++) {
                            out[b * dim + d_tail + lane_2] = sum[lane_2] / count;
                        }
                    } else {
                        for (SIZE d_tail_tail = d_tail; d_tail_tail < dim; d_tail_tail++) {
                            float sum = 0.0f;
                            for (SIZE t = start; t < end; t++) {
                                sum += values[t * dim + d_tail_tail];
                            }
                            out[b * dim + d_tail_tail] = sum / count;
                        }
                    }
                }
            }
        }
    }
}

extern "C" void jagged_mean(const VALUE *__restrict__ values, const INDEX *__restrict__ offsets, VALUE *__restrict__ out,
                            int64_t batch, int64_t total, int64_t dim) {
    if ((1.0 + batch) * (1.0 + total) * (1.0 + dim) < 2147483648.0) {
        jagged_mean_sized<int32_t>(values, offsets, out, batch, total, dim);
    } else {
        jagged_mean_sized<int64_t>(values, offsets, out, batch, total, dim);
    }
}
