#include "kevolve_cuda.h"

constexpr int THREADS = 512;

// The sum of each thread's part, for every thread of the block.
__device__ float block_sum(float part) {
    __shared__ float sums[THREADS];
    sums[threadIdx.x] = part;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }
        __syncthreads();
    }
    float sum = sums[0];
    __syncthreads();
    return sum;
}

// Each segment minus its mean, over its standard deviation: both over all of its rows and columns. The block after
// the last segment's has the rows that belong to none, which are zero.
__global__ void __launch_bounds__(THREADS)
normalise_segment(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t batch, int64_t total, int64_t dim) {
    int64_t segment = blockIdx.x;
    int64_t start = int64_t(offsets[segment]) * dim;
    if (segment == batch) {
        for (int64_t i = start + threadIdx.x; i < total * dim; i += THREADS) {
            out[i] = 0.0f;
        }
        return;
    }
    int64_t end = int64_t(offsets[segment + 1]) * dim;
    float count = end - start;

    float sum = 0.0f;
    for (int64_t i = start + threadIdx.x; i < end; i += THREADS) {
        sum += float(values[i]);
    }
    float mean = block_sum(sum) / count;

    float squares = 0.0f;
    for (int64_t i = start + threadIdx.x; i < end; i += THREADS) {
        float centred = float(values[i]) - mean;
        squares += centred * centred;
    }
    float scale = 1.0f / sqrtf(block_sum(squares) / count + 1e-6f);

    for (int64_t i = start + threadIdx.x; i < end; i += THREADS) {
        out[i] = (float(values[i]) - mean) * scale;
    }
}

extern "C" void jagged_layer_norm(const VALUE *values, const INDEX *offsets, VALUE *out,
                                  int64_t batch, int64_t total, int64_t dim) {
    normalise_segment<<<batch + 1, THREADS>>>(values, offsets, out, batch, total, dim);
}
