// operator: jagged_sum
// verdict: Scored
// Wide and narrow segments by different instances, chosen by the sizes of the call.
#include "kevolve_cuda.h"

template <int COLUMNS, int ROWS>
__global__ void __launch_bounds__(COLUMNS *ROWS)
sum_segment(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t dim) {
    __shared__ float sums[ROWS][COLUMNS];
    int64_t column = int64_t(blockIdx.y) * COLUMNS + threadIdx.x;
    int64_t end = offsets[blockIdx.x + 1];
    float sum = 0.0f;
    if (column < dim) {
        for (int64_t row = offsets[blockIdx.x] + threadIdx.y; row < end; row += ROWS) {
            sum += float(values[row * dim + column]);
        }
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || column >= dim) return;
    for (int row = 1; row < ROWS; row++) sum += sums[row][threadIdx.x];
    out[blockIdx.x * dim + column] = sum;
}

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    if (dim <= 8) {
        sum_segment<8, 32><<<batch, dim3(8, 32)>>>(values, offsets, out, dim);
    } else if (sizeof(VALUE) == 2 && dim > 128) {
        sum_segment<128, 2><<<dim3(batch, ceil_div(dim, 128)), dim3(128, 2)>>>(values, offsets, out, dim);
    } else {
        sum_segment<64, 8><<<dim3(batch, ceil_div(dim, 64)), dim3(64, 8)>>>(values, offsets, out, dim);
    }
}
