// operator: jagged_sum
// verdict: Scored
// Several blocks share a segment; their sums lie in workspace until a second kernel adds them.
#include "kevolve_cuda.h"

constexpr int PARTS = 8;
constexpr int COLUMNS = 128;

__global__ void sum_part(const VALUE *values, const INDEX *offsets, float *sums, int64_t batch, int64_t dim) {
    int64_t segment = blockIdx.x;
    int64_t column = int64_t(blockIdx.y) * COLUMNS + threadIdx.x;
    if (column >= dim) return;
    float sum = 0.0f;
    for (int64_t row = offsets[segment] + blockIdx.z; row < offsets[segment + 1]; row += PARTS) {
        sum += float(values[row * dim + column]);
    }
    sums[(blockIdx.z * batch + segment) * dim + column] = sum;
}

__global__ void add_parts(const float *sums, VALUE *out, int64_t count) {
    int64_t place = int64_t(blockIdx.x) * COLUMNS + threadIdx.x;
    if (place >= count) return;
    float sum = 0.0f;
    for (int part = 0; part < PARTS; part++) sum += sums[part * count + place];
    out[place] = sum;
}

static int64_t blocks(int64_t count) { return ceil_div(count, COLUMNS); }

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    const int64_t count = batch * dim;
    float *sums = workspace<float>(PARTS * count);
    dim3 grid(batch, blocks(dim), PARTS);
    sum_part<<<grid, COLUMNS>>>(values, offsets, sums, batch, dim);
    add_parts<<<blocks(count), COLUMNS>>>(sums, out, count);
}
