#include "kevolve.h"

// e^x within 2 ulp of the true value, denormal results, infinities and NaN included. Plain arithmetic, so that
// it vectorises. x = n ln 2 + r with |r| <= ln 2 / 2; the polynomial in r is the one of the Cephes library.
static inline __attribute__((always_inline)) float polynomial_exp(float x) {
    x = x > 89.0f ? 89.0f : x;  // comparisons with NaN are false: it passes through
    x = x < -104.0f ? -104.0f : x;
    float shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to an integer, held in the low bits
    float n = shifted - 12582912.0f;
    float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    uint32_t bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    int32_t power = static_cast<int32_t>(bits - 0x4b400000u);
    int32_t half = power >> 1;  // 2^n in two factors: each is a normal number even where e^x is not
    uint32_t low_bits = (static_cast<uint32_t>(half) + 127u) << 23;
    uint32_t high_bits = (static_cast<uint32_t>(power - half) + 127u) << 23;
    float low, high;
    std::memcpy(&low, &low_bits, sizeof low);
    std::memcpy(&high, &high_bits, sizeof high);
    return p * low * high;
}

// Softmax over the rows of each segment, one column at a time. Only the first max_length rows
// of a segment take part; every other row of the output is zero.
template <typename SIZE>
static void jagged_softmax_sized(const VALUE *values, const INDEX *offsets, VALUE *out,
                               SIZE batch, SIZE total, SIZE dim, SIZE max_length) {
    SIZE filled = 0;
    bool ordered = true;
    for (SIZE b = 0; b < batch; b++) {
        SIZE start = offsets[b];
        SIZE length = offsets[b + 1] - start;
        SIZE end = start + (length < max_length ? length : max_length);
        const SIZE row_first = start * dim, row_end = end * dim;
        if (row_first < row_end) {
            ordered = ordered && row_first >= filled && row_end <= (total * dim);
            for (SIZE i = filled; ordered && i < row_first; i++) {
                out[i] = 0.0f;
            }
            filled = ordered ? row_end : 0;
        }
    }
    #pragma omp parallel for schedule(dynamic, 8)
    for (SIZE i = filled; i < total * dim; i++) {
        out[i] = 0.0f;
    }
    #pragma omp parallel for schedule(static)
    for (SIZE b = 0; b < batch; b++) {
        SIZE start = offsets[b];
        SIZE length = offsets[b + 1] - start;
        SIZE end = start + (length < max_length ? length : max_length);
        #pragma GCC unroll 4
        for (SIZE d = 0; d < dim; d += 128) {
            if (dim - d >= 128) {
                alignas(64) float largest[128];
                #pragma omp simd
                for (int lane = 0; lane < 128; lane++) {
                    largest[lane] = -INFINITY;
                }
                const SIZE t_full = start + (end - start) / 3 * 3;
                for (SIZE t = start; t < t_full; t += 3) {
                    __builtin_prefetch(values + ((t + 2 * 3) * dim + d + 0));
                    __builtin_prefetch(values + ((t + 2 * 3) * dim + d + 16));
                    __builtin_prefetch(values + ((t + 2 * 3) * dim + d + 32));
                    __builtin_prefetch(values + ((t + 2 * 3) * dim + d + 48));
                    __builtin_prefetch(values + ((t + 2 * 3) * dim + d + 64));
                    __builtin_prefetch(values + ((t + 2 * 3) * dim + d + 80));
                    __builtin_prefetch(values + ((t + 2 * 3) * dim + d + 96));
                    __builtin_prefetch(values + ((t + 2 * 3) * dim + d + 112));
                    __builtin_prefetch(values + (((t + 2 * 3) + 1) * dim + d + 0));
                    __builtin_prefetch(values + (((t + 2 * 3) + 1) * dim + d + 16));
                    __builtin_prefetch(values + (((t + 2 * 3) + 1) * dim + d + 32));
                    __builtin_prefetch(values + (((t + 2 * 3) + 1) * dim + d + 48));
                    __builtin_prefetch(values + (((t + 2 * 3) + 1) * dim + d + 64));
                    __builtin_prefetch(values + (((t + 2 * 3) + 1) * dim + d + 80));
                    __builtin_prefetch(values + (((t + 2 * 3) + 1) * dim + d + 96));
                    __builtin_prefetch(values + (((t + 2 * 3) + 1) * dim + d + 112));
                    __builtin_prefetch(values + (((t + 2 * 3) + 2) * dim + d + 0));
                    __builtin_prefetch(values + (((t + 2 * 3) + 2) * dim + d + 16));
                    __builtin_prefetch(values + (((t + 2 * 3) + 2) * dim + d + 32));
                    __builtin_prefetch(values + (((t + 2 * 3) + 2) * dim + d + 48));
                    __builtin_prefetch(values + (((t + 2 * 3) + 2) * dim + d + 64));
                    __builtin_prefetch(values + (((t + 2 * 3) + 2) * dim + d + 80));
                    __builtin_prefetch(values + (((t + 2 * 3) + 2) * dim + d + 96));
                    __builtin_prefetch(values + (((t + 2 * 3) + 2) * dim + d + 112));
                    #pragma omp simd
                    for (int lane = 0; lane < 128; lane++) {
                        {
                            float value = values[t * dim + d + lane];
                            largest[lane] = value > largest[lane] ? value : largest[lane];
                        }
                        {
                            float value = values[(t + 1) * dim + d + lane];
                            largest[lane] = value > largest[lane] ? value : largest[lane];
                        }
                        {
                            float value = values[(t + 2) * dim + d + lane];
                            largest[lane] = value > largest[lane] ? value : largest[lane];
                        }
                    }
                }
                for (SIZE t = t_full; t < end; t++) {
                    #pragma omp simd
                    for (int lane = 0; lane < 128; lane++) {
                        float value = values[t * dim + d + lane];
                        largest[lane] = value > largest[lane] ? value : largest[lane];
                    }
                }
                alignas(64) float sum[128];
                #pragma omp simd
                for (int lane = 0; lane < 128; lane++) {
                    sum[lane] = 0.0f;
                }
                for (SIZE t = start; t < end; t++) {
                    #pragma omp simd
                    for (int lane = 0; lane < 128; lane++) {
                        const float kept = polynomial_exp(values[t * dim + d + lane] - largest[lane]);
                        if (sizeof(*out) == sizeof(float)) {
                            out[t * dim + d + lane] = kept;
                        }
                        sum[lane] += kept;
                    }
                }
                alignas(64) float sum_inverse[128];
                #pragma omp simd
                for (int lane = 0; lane < 128; lane++) {
                    sum_inverse[lane] = 1.0f / sum[lane];
                }
                for (SIZE t = start; t < end; t++) {
                    #pragma omp simd
                    for (int lane = 0; lane < 128; lane++) {
                        out[t * dim + d + lane] = (sizeof(*out) == sizeof(float) ? static_cast<float>(out[t * dim + d + lane]) : polynomial_exp(values[t * dim + d + lane] - largest[lane])) * sum_inverse[lane];
                    }
                }
            } else {
                for (SIZE d_tail = d; d_tail < dim; d_tail += 32) {
                    if (dim - d_tail >= 32) {
                        alignas(64) float largest[32];
                        #pragma omp simd
                        for (int lane_2 = 0; lane_2 < 32; lane_2++) {
                            largest[lane_2] = -INFINITY;
                        }
                        const SIZE t_full = start + (end - start) / 3 * 3;
                        for (SIZE t = start; t < t_full; t += 3) {
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < 32; lane_2++) {
                                {
                                    float value = values[t * dim + d_tail + lane_2];
                                    largest[lane_2] = value > largest[lane_2] ? value : largest[lane_2];
                                }
                                {
                                    float value = values[(t + 1) * dim + d_tail + lane_2];
                                    largest[lane_2] = value > largest[lane_2] ? value : largest[lane_2];
                                }
                                {
                                    float value = values[(t + 2) * dim + d_tail + lane_2];
                                    largest[lane_2] = value > largest[lane_2] ? value : largest[lane_2];
                                }
                            }
                        }
                        for (SIZE t = t_full; t < end; t++) {
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < 32; lane_2++) {
                                float value = values[t * dim + d_tail + lane_2];
                                largest[lane_2] = value > largest[lane_2] ? value : largest[lane_2];
                            }
                        }
                        alignas(64) float sum[32];
                        #pragma omp simd
                        for (int lane_2 = 0; lane_2 < 32; lane_2++) {
                            sum[lane_2] = 0.0f;
                        }
                        for (SIZE t = start; t < end; t++) {
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < 32; lane_2++) {
                                const float kept = polynomial_exp(values[t * dim + d_tail + lane_2] - largest[lane_2]);
                                if (sizeof(*out) == sizeof(float)) {
                                    out[t * dim + d_tail + lane_2] = kept;
                                }
                                sum[lane_2] += kept;
                            }
                        }
                        alignas(64) float sum_inverse[32];
                        #pragma omp simd
                        for (int lane_2 = 0; lane_2 < 32; lane_2++) {
                            sum_inverse[lane_2] = 1.0f / sum[lane_2];
                        }
                        for (SIZE t = start; t < end; t++) {
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < 32; lane_2++) {
                                out[t * dim + d_tail + lane_2] = (sizeof(*out) == sizeof(float) ? static_cast<float>(out[t * dim + d_tail + lane_2]) : polynomial_exp(values[t * dim + d_tail + lane_2] - largest[lane_2])) * sum_inverse[lane_2];
                            }
                        }
                    } else {
                        const int lanes = static_cast<int>(dim - d_tail);
                        alignas(64) float largest[32];
                        #pragma omp simd
                        for (int lane_2 = 0; lane_2 < lanes; lane_2++) {
                            largest[lane_2] = -INFINITY;
                        }
                        const SIZE t_full = start + (end - start) / 3 * 3;
                        for (SIZE t = start; t < t_full; t += 3) {
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < lanes; lane_2++) {
                                {
                                    float value = values[t * dim + d_tail + lane_2];
                                    largest[lane_2] = value > largest[lane_2] ? value : largest[lane_2];
                                }
                                {
                                    float value = values[(t + 1) * dim + d_tail + lane_2];
                                    largest[lane_2] = value > largest[lane_2] ? value : largest[lane_2];
                                }
                                {
                                    float value = values[(t + 2) * dim + d_tail + lane_2];
                                    largest[lane_2] = value > largest[lane_2] ? value : largest[lane_2];
                                }
                            }
                        }
                        for (SIZE t = t_full; t < end; t++) {
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < lanes; lane_2++) {
                                float value = values[t * dim + d_tail + lane_2];
                                largest[lane_2] = value > largest[lane_2] ? value : largest[lane_2];
                            }
                        }
                        alignas(64) float sum[32];
                        #pragma omp simd
                        for (int lane_2 = 0; lane_2 < lanes; lane_2++) {
                            sum[lane_2] = 0.0f;
                        }
                        for (SIZE t = start; t < end; t++) {
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < lanes; lane_2++) {
                                const float kept = polynomial_exp(values[t * dim + d_tail + lane_2] - largest[lane_2]);
                                if (sizeof(*out) == sizeof(float)) {
                                    out[t * dim + d_tail + lane_2] = kept;
                                }
                                sum[lane_2] += kept;
                            }
                        }
                        alignas(64) float sum_inverse[32];
                        #pragma omp simd
                        for (int lane_2 = 0; lane_2 < lanes; lane_2++) {
                            sum_inverse[lane_2] = 1.0f / sum[lane_2];
                        }
                        for (SIZE t = start; t < end; t++) {
                            #pragma omp simd
                            for (int lane_2 = 0; lane_2 < lanes; lane_2++) {
                                out[t * dim + d_tail + lane_2] = (sizeof(*out) == sizeof(float) ? static_cast<float>(out[t * dim + d_tail + lane_2]) : polynomial_exp(values[t * dim + d_tail + lane_2] - largest[lane_2])) * sum_inverse[lane_2];
                            }
                        }
                    }
                }
            }
        }
    }
}

extern "C" void jagged_softmax(const VALUE *values, const INDEX *offsets, VALUE *out,
                               int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    if ((1.0 + batch) * (1.0 + total) * (1.0 + dim) * (1.0 + max_length) < 2147483648.0) {
        jagged_softmax_sized<int32_t>(values, offsets, out, batch, total, dim, max_length);
    } else {
        jagged_softmax_sized<int64_t>(values, offsets, out, batch, total, dim, max_length);
    }
}
