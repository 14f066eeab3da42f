#include "kevolve.h"

// Each segment minus its mean, over its standard deviation: both over all of its rows and columns.
// Rows past the last segment are zero.
extern "C" void jagged_layer_norm(const VALUE *values, const INDEX *offsets, VALUE *out,
                                  int64_t batch, int64_t total, int64_t dim) {
    #pragma omp parallel for schedule(guided)
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b] * dim;
        int64_t end = offsets[b + 1] * dim;
        float count = end - start;
        float sum = 0.0f;
        for (int64_t i = start; i < end; i++) {
            sum += values[i];
        }
        float mean = sum / count;
        float squares = 0.0f;
        float squares_1 = 0;
        float squares_2 = 0;
        float squares_3 = 0;
        float squares_4 = 0;
        float squares_5 = 0;
        const int64_t i_full = start + (end - start) / 6 * 6;
        for (int64_t i = start; i < i_full; i += 6) {
            __builtin_prefetch(values + ((i + 32 * 6)));
            __builtin_prefetch(values + ((i + 32 * 6) + 1));
            __builtin_prefetch(values + ((i + 32 * 6) + 2));
            __builtin_prefetch(values + ((i + 32 * 6) + 3));
            __builtin_prefetch(values + ((i + 32 * 6) + 4));
            __builtin_prefetch(values + ((i + 32 * 6) + 5));
            {
                float difference = values[i] - mean;
                squares += difference * difference;
            }
            {
                float difference = values[i + 1] - mean;
                squares_1 += difference * difference;
            }
            {
                float difference = values[i + 2] - mean;
                squares_2 += difference * difference;
            }
            {
                float difference = values[i + 3] - mean;
                squares_3 += difference * difference;
            }
            {
                float difference = values[i + 4] - mean;
                squares_4 += difference * difference;
            }
            {
                float difference = values[i + 5] - mean;
                squares_5 += difference * difference;
            }
        }
        for (int64_t i = i_full; i < end; i++) {
            float difference = values[i] - mean;
            squares += difference * difference;
        }
        squares += squares_1;
        squares += squares_2;
        squares += squares_3;
        squares += squares_4;
        squares += squares_5;
        float scale = 1.0f / sqrtf(squares / count + 1e-6f);
        for (int64_t i = start; i < end; i += 32) {
            if (end - i >= 32) {
                #pragma omp simd
                for (int lane = 0; lane < 32; lane++) {
                    out[i + lane] = (values[i + lane] - mean) * scale;
                }
            } else {
                for (int64_t i_tail = i; i_tail < end; i_tail += 16) {
                    if (end - i_tail >= 16) {
                        #pragma omp simd
                        for (int lane_2 = 0; lane_2 < 16; lane_2++) {
                            out[i_tail + lane_2] = (values[i_tail + lane_2] - mean) * scale;
                        }
                    } else {
                        const int lanes = static_cast<int>(end - i_tail);
                        #pragma omp simd
                        for (int lane_2 = 0; lane_2 < lanes; lane_2++) {
                            out[i_tail + lane_2] = (values[i_tail + lane_2] - mean) * scale;
                        }
                    }
                }
            }
        }
    }
    if (offsets[batch] * dim < total * dim) {
        const int64_t i = offsets[batch] * dim;
        std::memset(&out[i], 0, static_cast<size_t>((total * dim) - (offsets[batch] * dim)) * sizeof(*out));
    }
}
