// needs: x86_64
// operator: jagged_sum
// verdict: Scored
// Vector instructions by name, with masks for what is left at the end of a row, where the chip has them.
#include <immintrin.h>

#include "kevolve.h"

static void add_rows(const float *values, int64_t start, int64_t end, float *out, int64_t dim) {
#ifdef __AVX512F__
    for (int64_t left = 0; left < dim; left += 16) {
        __mmask16 mask = dim - left >= 16 ? 0xffff : (1u << (dim - left)) - 1;
        __m512 sum = _mm512_setzero_ps();
        for (int64_t t = start; t < end; t++) {
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, values + t * dim + left));
        }
        _mm512_mask_storeu_ps(out + left, mask, sum);
    }
#else
    for (int64_t d = 0; d < dim; d++) {
        out[d] = 0.0f;
        for (int64_t t = start; t < end; t++) out[d] += values[t * dim + d];
    }
#endif
}

static void add_rows(const bfloat16 *values, int64_t start, int64_t end, bfloat16 *out, int64_t dim) {
    for (int64_t d = 0; d < dim; d++) {
        float sum = 0.0f;
        for (int64_t t = start; t < end; t++) sum += values[t * dim + d];
        out[d] = sum;
    }
}

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
#pragma omp parallel for schedule(guided)
    for (int64_t b = 0; b < batch; b++) add_rows(values, offsets[b], offsets[b + 1], out + b * dim, dim);
}
