// operator: jagged_sum
// verdict: Scored
// Blocks add to the same sums in zeroed workspace, in whatever order; a last kernel rounds them.
#include "kevolve_cuda.h"

constexpr int PARTS = 4;
constexpr int COLUMNS = 128;

__global__ void add_part(const VALUE *values, const INDEX *offsets, float *sums, int64_t dim) {
    int64_t segment = blockIdx.x;
    int64_t column = int64_t(blockIdx.y) * COLUMNS + threadIdx.x;
    if (column >= dim) return;
    float sum = 0.0f;
    for (int64_t row = offsets[segment] + blockIdx.z; row < offsets[segment + 1]; row += PARTS) {
        sum += float(values[row * dim + column]);
    }
    atomicAdd(sums + segment * dim + column, sum);
}

__global__ void rounded(const float *sums, VALUE *out, int64_t count) {
    int64_t place = int64_t(blockIdx.x) * COLUMNS + threadIdx.x;
    if (place < count) out[place] = sums[place];
}

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    float *sums = zeroed_workspace<float>(batch * dim);
    add_part<<<dim3(batch, ceil_div(dim, COLUMNS), PARTS), COLUMNS>>>(values, offsets, sums, dim);
    rounded<<<ceil_div(batch * dim, COLUMNS), COLUMNS>>>(sums, out, batch * dim);
}
