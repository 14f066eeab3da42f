#include "kevolve_cuda.h"

constexpr int COLUMNS = 64;
constexpr int ROWS = 4;

// Row t of segment b = dense[b, t, :]; rows that dense does not have are zero. Each thread writes every ROWS-th row of
// one column; the block after the last segment's has the rows that belong to none.
__global__ void __launch_bounds__(COLUMNS * ROWS)
gather_segment(const VALUE *dense, const INDEX *offsets, VALUE *out,
               int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    int64_t segment = blockIdx.x;
    int64_t column = int64_t(blockIdx.y) * COLUMNS + threadIdx.x;
    if (column >= dim) {
        return;
    }
    int64_t start = offsets[segment];
    int64_t last = segment < batch ? int64_t(offsets[segment + 1]) : total;
    int64_t end = segment < batch ? min(last, start + max_length) : start;
    for (int64_t row = start + threadIdx.y; row < end; row += ROWS) {
        out[row * dim + column] = dense[(segment * max_length + row - start) * dim + column];
    }
    for (int64_t row = end + threadIdx.y; row < last; row += ROWS) {
        out[row * dim + column] = 0.0f;
    }
}

extern "C" void dense_to_jagged(const VALUE *dense, const INDEX *offsets, VALUE *out,
                                int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    dim3 grid(batch + 1, ceil_div(dim, COLUMNS));
    dim3 block(COLUMNS, ROWS);
    gather_segment<<<grid, block>>>(dense, offsets, out, batch, total, dim, max_length);
}
