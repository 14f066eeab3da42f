// operator: jagged_sum
// verdict: Scored
// Outputs are zeroed first; a block whose segment is empty has nothing more to do.
#include "kevolve_cuda.h"

constexpr int COLUMNS = 128;

__global__ void sum_segment(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t dim) {
    int64_t segment = blockIdx.x;
    int64_t column = int64_t(blockIdx.y) * COLUMNS + threadIdx.x;
    if (column >= dim) return;
    if (offsets[segment] == offsets[segment + 1]) return;
    float sum = 0.0f;
    for (int64_t row = offsets[segment]; row < offsets[segment + 1]; row++) {
        sum += float(values[row * dim + column]);
    }
    out[segment * dim + column] = sum;
}

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    zero(out, batch * dim);
    sum_segment<<<dim3(batch, ceil_div(dim, COLUMNS)), COLUMNS>>>(values, offsets, out, dim);
}
