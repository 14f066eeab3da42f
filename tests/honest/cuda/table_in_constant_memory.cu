// operator: jagged_sum
// verdict: Scored
// A table of signs in constant memory, and static shared memory to add up in.
#include "kevolve_cuda.h"

constexpr int COLUMNS = 32;
constexpr int ROWS = 8;

__constant__ float ones[ROWS] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};

__global__ void sum_segment(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t dim) {
    __shared__ float sums[ROWS][COLUMNS];
    int64_t segment = blockIdx.x;
    int64_t column = int64_t(blockIdx.y) * COLUMNS + threadIdx.x;
    float sum = 0.0f;
    if (column < dim) {
        for (int64_t row = offsets[segment] + threadIdx.y; row < offsets[segment + 1]; row += ROWS) {
            sum += float(values[row * dim + column]) * ones[threadIdx.y];
        }
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || column >= dim) return;
    for (int row = 1; row < ROWS; row++) sum += sums[row][threadIdx.x];
    out[segment * dim + column] = sum;
}

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    dim3 grid(batch, ceil_div(dim, COLUMNS)), block(COLUMNS, ROWS);
    sum_segment<<<grid, block>>>(values, offsets, out, dim);
}
