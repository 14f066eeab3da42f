#include "kevolve.h"

// out[b, d] = sum of values[t, d] over the rows t of segment b.
extern "C" void jagged_sum(const VALUE *__restrict__ values, const INDEX *__restrict__ offsets, VALUE *__restrict__ out,
                           int64_t batch, int64_t total, int64_t dim) {
    #pragma omp parallel for schedule(guided, 4)
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b];
        int64_t end = offsets[b + 1];
        for (int64_t d = 0; d < dim; d += 32) {
            if (dim - d >= 32) {
                alignas(64) float sum[32];
                #pragma omp simd
                for (int lane = 0; lane < 32; lane++) {
                    sum[lane] = 0.0f;
                }
                const int64_t t_full = start + (end - start) / 2 * 2;
                for (int64_t t = start; t < t_full; t += 2) {
                    #pragma omp simd
                    for (int lane = 0; lane < 32; lane++) {
                        {
                            sum[lane] += values[t * dim + d + lane];
                        }
                        {
                            sum[lane] += values[(t + 1) * dim + d + lane];
                        }
                    }
                }
                for (int64_t t = t_full; t < end; t++) {
                    #pragma omp simd
                    for (int lane = 0; lane < 32; lane++) {
                        sum[lane] += values[t * dim + d + lane];
                    }
                }
                #pragma omp simd
                for (int lane = 0; lane < 32; lane++) {
                    out[b * dim + d + lane] = sum[lane];
                }
            } else {
                for (int64_t d_tail = d; d_tail < dim; d_tail++) {
                    float sum = 0.0f;
                    const int64_t t_full = start + (end - start) / 2 * 2;
                    for (int64_t t = start; t < t_full; t += 2) {
                        {
                            sum += values[t * dim + d_tail];
                        }
                        {
                            sum += values[(t + 1) * dim + d_tail];
                        }
                    }
                    for (int64_t t = t_full; t < end; t++) {
                        sum += values[t * dim + d_tail];
                    }
                    out[b * dim + d_tail] = sum;
                }
            }
        }
    }
}
