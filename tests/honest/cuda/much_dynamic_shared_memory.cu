// operator: jagged_sum
// verdict: Scored
// More shared memory than a kernel has without being allowed it, its size reckoned from the sizes.
#include "kevolve_cuda.h"

constexpr int THREADS = 256;
constexpr int ROWS = 64;
constexpr int64_t MOST = 96 << 10;

extern __shared__ float tile[];

__global__ void sum_segment(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t dim, int columns) {
    int64_t segment = blockIdx.x;
    int64_t first = int64_t(blockIdx.y) * columns;
    int count = min(int64_t(columns), dim - first);
    for (int i = threadIdx.x; i < ROWS * columns; i += THREADS) {
        float sum = 0.0f;
        if (i % columns < count) {
            for (int64_t row = offsets[segment] + i / columns; row < offsets[segment + 1]; row += ROWS) {
                sum += float(values[row * dim + first + i % columns]);
            }
        }
        tile[i] = sum;
    }
    __syncthreads();
    for (int column = threadIdx.x; column < count; column += THREADS) {
        float sum = 0.0f;
        for (int row = 0; row < ROWS; row++) sum += tile[row * columns + column];
        out[segment * dim + first + column] = sum;
    }
}

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    int columns = max(int64_t(1), min(dim, MOST / (ROWS * int64_t(sizeof(float)))));
    size_t bytes = ROWS * columns * sizeof(float);
    sum_segment<<<dim3(batch, ceil_div(dim, columns)), THREADS, bytes>>>(values, offsets, out, dim, columns);
}
