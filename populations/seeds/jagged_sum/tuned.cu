#include "kevolve_cuda.h"

constexpr int WIDTH = 16 / sizeof(VALUE);
constexpr int LANES = 16;
constexpr int ROWS = 16;

// out[b, d] = sum of values[t, d] over the rows t of segment b. A thread loads N columns at once of every ROWS-th row,
// four rows ahead.
template <int N>
__global__ void __launch_bounds__(LANES * ROWS)
sum_segment(const VALUE *__restrict__ values, const INDEX *__restrict__ offsets, VALUE *__restrict__ out, int64_t dim) {
    __shared__ float sums[ROWS][LANES * N];
    int64_t segment = blockIdx.x;
    int64_t column = (int64_t(blockIdx.y) * LANES + threadIdx.x) * N;
    int64_t end = offsets[segment + 1];
    float parts[N] = {};
    if (column < dim) {
#pragma unroll 4
        for (int64_t row = int64_t(offsets[segment]) + threadIdx.y; row < end; row += ROWS) {
            Pack<VALUE, N> pack = *reinterpret_cast<const Pack<VALUE, N> *>(values + row * dim + column);
#pragma unroll
            for (int i = 0; i < N; i++) {
                parts[i] += float(pack.values[i]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        sums[threadIdx.y][threadIdx.x * N + i] = parts[i];
    }
    __syncthreads();
    int64_t first = int64_t(blockIdx.y) * LANES * N;
    for (int i = threadIdx.y * LANES + threadIdx.x; i < LANES * N && first + i < dim; i += LANES * ROWS) {
        float sum = 0.0f;
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            sum += sums[row][i];
        }
        out[segment * dim + first + i] = sum;
    }
}

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    dim3 block(LANES, ROWS);
    if (dim % WIDTH == 0 && is_aligned(values, WIDTH * sizeof(VALUE))) {
        dim3 grid(batch, ceil_div(dim, LANES * WIDTH));
        sum_segment<WIDTH><<<grid, block>>>(values, offsets, out, dim);
    } else {
        dim3 grid(batch, ceil_div(dim, LANES));
        sum_segment<1><<<grid, block>>>(values, offsets, out, dim);
    }
}
