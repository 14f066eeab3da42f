#include "kevolve_cuda.h"

constexpr int COLUMNS = 64;
constexpr int ROWS = 4;

// out[b, d] = mean of values[t, d] over the rows t of segment b, zero if it has none: each thread adds every ROWS-th row
// of one column.
__global__ void __launch_bounds__(COLUMNS * ROWS)
mean_segment(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t dim) {
    __shared__ float sums[ROWS][COLUMNS];
    int64_t segment = blockIdx.x;
    int64_t column = int64_t(blockIdx.y) * COLUMNS + threadIdx.x;
    int64_t start = offsets[segment];
    int64_t end = offsets[segment + 1];
    float sum = 0.0f;
    if (column < dim) {
        for (int64_t row = start + threadIdx.y; row < end; row += ROWS) {
            sum += float(values[row * dim + column]);
        }
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < dim) {
        for (int row = 1; row < ROWS; row++) {
            sum += sums[row][threadIdx.x];
        }
        out[segment * dim + column] = end > start ? sum / float(end - start) : 0.0f;
    }
}

extern "C" void jagged_mean(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    dim3 grid(batch, ceil_div(dim, COLUMNS));
    dim3 block(COLUMNS, ROWS);
    mean_segment<<<grid, block>>>(values, offsets, out, dim);
}
