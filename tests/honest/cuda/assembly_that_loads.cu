// operator: jagged_sum
// verdict: Scored
// Loads past the caches in inline PTX, and adds up the lanes of a warp by shuffles.
#include "kevolve_cuda.h"

constexpr int THREADS = 128;

__device__ float streamed(const float *address) {
    float value;
    asm("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(value) : "l"(address));
    return value;
}
template <typename T> __device__ float streamed(const T *address) { return float(__ldcs(address)); }

// One warp for each sum: its lanes take turns with the rows.
__global__ void sum_segment(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t dim, int64_t count) {
    int64_t place = (int64_t(blockIdx.x) * THREADS + threadIdx.x) / 32;
    if (place >= count) return;
    int64_t segment = place / dim, column = place % dim;
    float sum = 0.0f;
    for (int64_t row = offsets[segment] + threadIdx.x % 32; row < offsets[segment + 1]; row += 32) {
        sum += streamed(values + row * dim + column);
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
    if (threadIdx.x % 32 == 0) out[place] = sum;
}

extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    sum_segment<<<ceil_div(batch * dim * 32, THREADS), THREADS>>>(values, offsets, out, dim, batch * dim);
}
