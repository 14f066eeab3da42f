#include "kevolve_cuda.h"

constexpr int COLUMNS = 64;
constexpr int ROWS = 4;

// out[b, t, :] = row t of segment b, zero past its end: each thread writes one element.
__global__ void __launch_bounds__(COLUMNS * ROWS)
pad_segment(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t dim, int64_t max_length) {
    int64_t segment = blockIdx.x;
    int64_t row = int64_t(blockIdx.y) * ROWS + threadIdx.y;
    int64_t column = int64_t(blockIdx.z) * COLUMNS + threadIdx.x;
    if (row >= max_length || column >= dim) {
        return;
    }
    int64_t start = offsets[segment];
    int64_t place = (segment * max_length + row) * dim + column;
    if (row < offsets[segment + 1] - start) {
        out[place] = values[(start + row) * dim + column];
    } else {
        out[place] = 0.0f;
    }
}

extern "C" void jagged_to_padded_dense(const VALUE *values, const INDEX *offsets, VALUE *out,
                                       int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    dim3 grid(batch, ceil_div(max_length, ROWS), ceil_div(dim, COLUMNS));
    dim3 block(COLUMNS, ROWS);
    pad_segment<<<grid, block>>>(values, offsets, out, dim, max_length);
}
