#include "kevolve_cuda.h"

constexpr int COLUMNS = 64;
constexpr int ROWS = 4;

// Row t of segment b = its value + dense[b, t, :], or the value alone where dense has no such row; rows past the last
// segment are zero. Each thread has every ROWS-th row of one column; the block after the last segment's has the rest.
__global__ void __launch_bounds__(COLUMNS * ROWS)
add_to_segment(const VALUE *values, const INDEX *offsets, const VALUE *dense, VALUE *out,
               int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    int64_t segment = blockIdx.x;
    int64_t column = int64_t(blockIdx.y) * COLUMNS + threadIdx.x;
    if (column >= dim) {
        return;
    }
    int64_t start = offsets[segment];
    if (segment == batch) {
        for (int64_t row = start + threadIdx.y; row < total; row += ROWS) {
            out[row * dim + column] = 0.0f;
        }
        return;
    }
    int64_t last = offsets[segment + 1];
    int64_t end = min(last, start + max_length);
    for (int64_t row = start + threadIdx.y; row < end; row += ROWS) {
        float added = dense[(segment * max_length + row - start) * dim + column];
        out[row * dim + column] = float(values[row * dim + column]) + added;
    }
    for (int64_t row = end + threadIdx.y; row < last; row += ROWS) {
        out[row * dim + column] = values[row * dim + column];
    }
}

extern "C" void jagged_dense_elementwise_add(const VALUE *values, const INDEX *offsets, const VALUE *dense,
                                             VALUE *out, int64_t batch, int64_t total, int64_t dim,
                                             int64_t max_length) {
    dim3 grid(batch + 1, ceil_div(dim, COLUMNS));
    dim3 block(COLUMNS, ROWS);
    add_to_segment<<<grid, block>>>(values, offsets, dense, out, batch, total, dim, max_length);
}
