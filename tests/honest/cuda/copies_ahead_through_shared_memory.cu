// operator: jagged_sum
// verdict: Scored
// Rows are copied into shared memory a step ahead (cp.async), where they lie on 16 bytes.
#include "kevolve_cuda.h"
#include <cuda_pipeline.h>

constexpr int LANES = 16;
constexpr int ROWS = 8;
constexpr int STAGES = 3;
constexpr int WIDTH = 16 / sizeof(VALUE);

// One block for a segment and LANES * WIDTH of its columns; tiles of ROWS rows are under way, STAGES of them.
__global__ void __launch_bounds__(LANES *ROWS)
sum_segment(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t dim) {
    __shared__ Pack<VALUE, WIDTH> tiles[STAGES][ROWS][LANES];
    __shared__ float sums[ROWS][LANES * WIDTH];
    int lane = threadIdx.x, own = threadIdx.y;
    int64_t column = (int64_t(blockIdx.y) * LANES + lane) * WIDTH;
    bool has = column < dim;
    int64_t start = offsets[blockIdx.x], end = offsets[blockIdx.x + 1];
    float parts[WIDTH] = {};
    for (int stage = 0; stage < STAGES - 1; stage++) {
        int64_t row = start + stage * ROWS + own;
        if (has && row < end) __pipeline_memcpy_async(&tiles[stage][own][lane], values + row * dim + column, 16);
        __pipeline_commit();
    }
    int stage = 0;
    for (int64_t row = start + own; row - own < end; row += ROWS) {
        int64_t ahead = row + (STAGES - 1) * ROWS;
        int next = (stage + STAGES - 1) % STAGES;
        if (has && ahead < end) __pipeline_memcpy_async(&tiles[next][own][lane], values + ahead * dim + column, 16);
        __pipeline_commit();
        __pipeline_wait_prior(STAGES - 1);
        if (has && row < end) {
            for (int i = 0; i < WIDTH; i++) parts[i] += float(tiles[stage][own][lane].values[i]);
        }
        stage = (stage + 1) % STAGES;
    }
    for (int i = 0; i < WIDTH; i++) sums[own][lane * WIDTH + i] = parts[i];
    __syncthreads();
    if (own > 0 || !has) return;
    for (int i = 0; i < WIDTH; i++) {
        float sum = 0.0f;
        for (int row = 0; row < ROWS; row++) sum += sums[row][lane * WIDTH + i];
        out[blockIdx.x * dim + column + i] = sum;
    }
}

__global__ void sum_anything(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t dim) {
    int64_t column = int64_t(blockIdx.y) * blockDim.x + threadIdx.x;
    if (column >= dim) return;
    float sum = 0.0f;
    for (int64_t row = offsets[blockIdx.x]; row < offsets[blockIdx.x + 1]; row++) sum += float(values[row * dim + column]);
    out[blockIdx.x * dim + column] = sum;
}

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    if (dim % WIDTH == 0 && is_aligned(values, 16)) {
        dim3 grid(batch, ceil_div(dim, LANES * WIDTH));
        sum_segment<<<grid, dim3(LANES, ROWS)>>>(values, offsets, out, dim);
    } else {
        sum_anything<<<dim3(batch, ceil_div(dim, 64)), 64>>>(values, offsets, out, dim);
    }
}
