#include "kevolve_cuda.h"

constexpr int TILE = 16;

// Row t of out = row t of values times its segment's matrix, for the first max_length rows of a segment; else zero.
// A block makes TILE rows and TILE columns of products; the blocks after the last segment's have the rows of none.
__global__ void __launch_bounds__(TILE * TILE)
multiply_segment(const VALUE *values, const INDEX *offsets, const VALUE *matrices, VALUE *out,
                 int64_t batch, int64_t total, int64_t dim, int64_t out_dim, int64_t max_length) {
    __shared__ float left[TILE][TILE];
    __shared__ float right[TILE][TILE + 1];
    int64_t segment = blockIdx.x;
    int64_t column = int64_t(blockIdx.z) * TILE + threadIdx.x;
    int64_t start = offsets[segment];
    int64_t last = segment < batch ? int64_t(offsets[segment + 1]) : total;
    int64_t end = segment < batch ? min(last, start + max_length) : start;

    int64_t first = start + int64_t(blockIdx.y) * TILE;
    if (first < end) {
        int64_t row = first + threadIdx.y;
        float sum = 0.0f;
        for (int64_t depth = 0; depth < dim; depth += TILE) {
            int64_t across = depth + threadIdx.x;
            int64_t down = depth + threadIdx.y;
            left[threadIdx.y][threadIdx.x] = row < end && across < dim ? float(values[row * dim + across]) : 0.0f;
            right[threadIdx.y][threadIdx.x] =
                down < dim && column < out_dim ? float(matrices[(segment * dim + down) * out_dim + column]) : 0.0f;
            __syncthreads();
            for (int i = 0; i < TILE; i++) {
                sum += left[threadIdx.y][i] * right[i][threadIdx.x];
            }
            __syncthreads();
        }
        if (row < end && column < out_dim) {
            out[row * out_dim + column] = sum;
        }
    }
    if (blockIdx.y == 0 && column < out_dim) {
        for (int64_t row = end + threadIdx.y; row < last; row += TILE) {
            out[row * out_dim + column] = 0.0f;
        }
    }
}

extern "C" void jagged_dense_bmm(const VALUE *values, const INDEX *offsets, const VALUE *matrices, VALUE *out,
                                 int64_t batch, int64_t total, int64_t dim, int64_t out_dim,
                                 int64_t max_length) {
    dim3 grid(batch + 1, max(int64_t(1), ceil_div(max_length, TILE)), ceil_div(out_dim, TILE));
    dim3 block(TILE, TILE);
    multiply_segment<<<grid, block>>>(values, offsets, matrices, out, batch, total, dim, out_dim, max_length);
}
