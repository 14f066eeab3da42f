#include "kevolve_cuda.h"

constexpr int WIDTH = 16 / sizeof(VALUE);
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

// Each segment minus its mean, over its standard deviation: both over all of its rows and columns. The block after the
// last segment's has the rows that belong to none, which are zero. N elements are loaded at once, four times ahead; the
// second and third look at a segment find it in the cache, and the last one goes backwards to where that is surest.
template <int N>
__global__ void __launch_bounds__(THREADS)
normalise_segment(const VALUE *__restrict__ values, const INDEX *__restrict__ offsets, VALUE *__restrict__ out,
                  int64_t batch, int64_t total, int64_t dim) {
    const Pack<VALUE, N> *from = reinterpret_cast<const Pack<VALUE, N> *>(values);
    Pack<VALUE, N> *to = reinterpret_cast<Pack<VALUE, N> *>(out);
    int64_t segment = blockIdx.x;
    int64_t start = int64_t(offsets[segment]) * dim / N;
    if (segment == batch) {
        Pack<VALUE, N> zeros;
#pragma unroll
        for (int i = 0; i < N; i++) {
            zeros.values[i] = 0.0f;
        }
        for (int64_t place = start + threadIdx.x; place < total * dim / N; place += THREADS) {
            to[place] = zeros;
        }
        return;
    }
    int64_t end = int64_t(offsets[segment + 1]) * dim / N;
    float count = (end - start) * N;

    float sum = 0.0f;
#pragma unroll 4
    for (int64_t place = start + threadIdx.x; place < end; place += THREADS) {
        Pack<VALUE, N> pack = from[place];
#pragma unroll
        for (int i = 0; i < N; i++) {
            sum += float(pack.values[i]);
        }
    }
    float mean = block_sum(sum) / count;

    float squares = 0.0f;
#pragma unroll 4
    for (int64_t place = start + threadIdx.x; place < end; place += THREADS) {
        Pack<VALUE, N> pack = from[place];
#pragma unroll
        for (int i = 0; i < N; i++) {
            float centred = float(pack.values[i]) - mean;
            squares += centred * centred;
        }
    }
    float scale = 1.0f / sqrtf(block_sum(squares) / count + 1e-6f);

#pragma unroll 4
    for (int64_t place = end - 1 - int64_t(threadIdx.x); place >= start; place -= THREADS) {
        Pack<VALUE, N> pack = from[place];
#pragma unroll
        for (int i = 0; i < N; i++) {
            pack.values[i] = (float(pack.values[i]) - mean) * scale;
        }
        to[place] = pack;
    }
}

extern "C" void jagged_layer_norm(const VALUE *values, const INDEX *offsets, VALUE *out,
                                  int64_t batch, int64_t total, int64_t dim) {
    int64_t bytes = WIDTH * sizeof(VALUE);
    if (dim % WIDTH == 0 && is_aligned(values, bytes) && is_aligned(out, bytes)) {
        normalise_segment<WIDTH><<<batch + 1, THREADS>>>(values, offsets, out, batch, total, dim);
    } else {
        normalise_segment<1><<<batch + 1, THREADS>>>(values, offsets, out, batch, total, dim);
    }
}
