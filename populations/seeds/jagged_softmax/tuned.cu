#include "kevolve_cuda.h"

constexpr int WIDTH = 16 / sizeof(VALUE);
constexpr int LANES = 16;
constexpr int ROWS = 16;

// Softmax over the first max_length rows of each segment, column by column; zero in every other row. The largest value
// and the sum are found in one pass: the sum so far is scaled whenever a larger value comes. A thread has N columns of
// every ROWS-th row; the block after the last segment's has the rows that belong to none.
template <int N>
__global__ void __launch_bounds__(LANES * ROWS)
softmax_segment(const VALUE *__restrict__ values, const INDEX *__restrict__ offsets, VALUE *__restrict__ out,
                int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    __shared__ float all_largest[ROWS][LANES * N];
    __shared__ float all_sums[ROWS][LANES * N];
    int64_t segment = blockIdx.x;
    int64_t column = (int64_t(blockIdx.y) * LANES + threadIdx.x) * N;
    bool has_column = column < dim;
    int64_t start = offsets[segment];
    int64_t last = segment < batch ? int64_t(offsets[segment + 1]) : total;
    int64_t end = segment < batch ? min(last, start + max_length) : start;

    float largest[N];
    float sums[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        largest[i] = -INFINITY;
        sums[i] = 0.0f;
    }
    if (has_column) {
#pragma unroll 2
        for (int64_t row = start + threadIdx.y; row < end; row += ROWS) {
            Pack<VALUE, N> pack = *reinterpret_cast<const Pack<VALUE, N> *>(values + row * dim + column);
#pragma unroll
            for (int i = 0; i < N; i++) {
                float value = pack.values[i];
                float larger = fmaxf(largest[i], value);
                // Equal infinities have no difference.
                float kept = largest[i] == larger ? sums[i] : sums[i] * expf(largest[i] - larger);
                sums[i] = kept + (value == larger ? 1.0f : expf(value - larger));
                largest[i] = larger;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        all_largest[threadIdx.y][threadIdx.x * N + i] = largest[i];
        all_sums[threadIdx.y][threadIdx.x * N + i] = sums[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; i++) {
        int place = threadIdx.x * N + i;
#pragma unroll 1
        for (int row = 0; row < ROWS; row++) {
            largest[i] = fmaxf(largest[i], all_largest[row][place]);
        }
        sums[i] = 0.0f;
#pragma unroll 1
        for (int row = 0; row < ROWS; row++) {
            float theirs = all_largest[row][place];
            sums[i] += all_sums[row][place] * (theirs == largest[i] ? 1.0f : expf(theirs - largest[i]));
        }
        if (fabsf(largest[i]) == INFINITY) {  // as the definition has it: infinity less infinity is no number
            sums[i] = largest[i] - largest[i];
        }
    }

    if (has_column) {
#pragma unroll 1
        for (int64_t row = start + threadIdx.y; row < end; row += ROWS) {
            Pack<VALUE, N> pack = *reinterpret_cast<const Pack<VALUE, N> *>(values + row * dim + column);
#pragma unroll
            for (int i = 0; i < N; i++) {
                pack.values[i] = expf(float(pack.values[i]) - largest[i]) / sums[i];
            }
            *reinterpret_cast<Pack<VALUE, N> *>(out + row * dim + column) = pack;
        }
        Pack<VALUE, N> zeros;
#pragma unroll
        for (int i = 0; i < N; i++) {
            zeros.values[i] = 0.0f;
        }
        for (int64_t row = end + threadIdx.y; row < last; row += ROWS) {
            *reinterpret_cast<Pack<VALUE, N> *>(out + row * dim + column) = zeros;
        }
    }
}

extern "C" void jagged_softmax(const VALUE *values, const INDEX *offsets, VALUE *out,
                               int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    dim3 block(LANES, ROWS);
    int64_t bytes = WIDTH * sizeof(VALUE);
    if (dim % WIDTH == 0 && is_aligned(values, bytes) && is_aligned(out, bytes)) {
        dim3 grid(batch + 1, ceil_div(dim, LANES * WIDTH));
        softmax_segment<WIDTH><<<grid, block>>>(values, offsets, out, batch, total, dim, max_length);
    } else {
        dim3 grid(batch + 1, ceil_div(dim, LANES));
        softmax_segment<1><<<grid, block>>>(values, offsets, out, batch, total, dim, max_length);
    }
}
