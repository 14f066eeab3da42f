#include "kevolve_cuda.h"

constexpr int COLUMNS = 64;
constexpr int ROWS = 4;

// Softmax over the first max_length rows of each segment, column by column; zero in every other row. Each thread has
// every ROWS-th row of one column; the block after the last segment's has the rows that belong to none.
__global__ void __launch_bounds__(COLUMNS * ROWS)
softmax_segment(const VALUE *values, const INDEX *offsets, VALUE *out,
                int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    __shared__ float parts[ROWS][COLUMNS];
    int64_t segment = blockIdx.x;
    int64_t column = int64_t(blockIdx.y) * COLUMNS + threadIdx.x;
    bool has_column = column < dim;
    int64_t start = offsets[segment];
    int64_t last = segment < batch ? int64_t(offsets[segment + 1]) : total;
    int64_t end = segment < batch ? min(last, start + max_length) : start;

    float largest = -INFINITY;
    if (has_column) {
        for (int64_t row = start + threadIdx.y; row < end; row += ROWS) {
            largest = fmaxf(largest, float(values[row * dim + column]));
        }
    }
    parts[threadIdx.y][threadIdx.x] = largest;
    __syncthreads();
    for (int row = 0; row < ROWS; row++) {
        largest = fmaxf(largest, parts[row][threadIdx.x]);
    }
    __syncthreads();

    float sum = 0.0f;
    if (has_column) {
        for (int64_t row = start + threadIdx.y; row < end; row += ROWS) {
            sum += expf(float(values[row * dim + column]) - largest);
        }
    }
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int row = 0; row < ROWS; row++) {
        sum += parts[row][threadIdx.x];
    }

    if (has_column) {
        for (int64_t row = start + threadIdx.y; row < end; row += ROWS) {
            out[row * dim + column] = expf(float(values[row * dim + column]) - largest) / sum;
        }
        for (int64_t row = end + threadIdx.y; row < last; row += ROWS) {
            out[row * dim + column] = 0.0f;
        }
    }
}

extern "C" void jagged_softmax(const VALUE *values, const INDEX *offsets, VALUE *out,
                               int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    dim3 grid(batch + 1, ceil_div(dim, COLUMNS));
    dim3 block(COLUMNS, ROWS);
    softmax_segment<<<grid, block>>>(values, offsets, out, batch, total, dim, max_length);
}
