// operator: jagged_sum
// verdict: Scored
// Four columns a load where the address allows it, single ones where it does not.
#include "kevolve_cuda.h"

constexpr int WIDTH = 4;
constexpr int THREADS = 64;

template <int N>
__global__ void sum_segment(const VALUE *__restrict__ values, const INDEX *__restrict__ offsets,
                            VALUE *__restrict__ out, int64_t dim) {
    int64_t segment = blockIdx.x;
    int64_t column = (int64_t(blockIdx.y) * THREADS + threadIdx.x) * N;
    if (column >= dim) return;
    float sums[N] = {};
    for (int64_t row = offsets[segment]; row < offsets[segment + 1]; row++) {
        Pack<VALUE, N> pack = *reinterpret_cast<const Pack<VALUE, N> *>(values + row * dim + column);
#pragma unroll
        for (int i = 0; i < N; i++) sums[i] += float(pack.values[i]);
    }
#pragma unroll
    for (int i = 0; i < N; i++) out[segment * dim + column + i] = sums[i];
}

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    if (dim % WIDTH == 0 && is_aligned(values, WIDTH * sizeof(VALUE))) {
        sum_segment<WIDTH><<<dim3(batch, ceil_div(dim, WIDTH * THREADS)), THREADS>>>(values, offsets, out, dim);
    } else {
        sum_segment<1><<<dim3(batch, ceil_div(dim, THREADS)), THREADS>>>(values, offsets, out, dim);
    }
}
