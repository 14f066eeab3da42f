// Measures what this machine can do at best: rates in bytes or operations per second, all cores together.
// Prints: copy (reads plus writes), read from memory, read from cache, multiply-adds counted as two.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kevolve.h"

static double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The best of several repetitions: interference only ever makes a machine look slower than it is.
template <typename Work>
static double best(double amount, int repetitions, Work work) {
    double fastest = 0;
    for (int i = 0; i < repetitions; i++) {
        double start = seconds();
        work();
        fastest = std::max(fastest, amount / (seconds() - start));
    }
    return fastest;
}

// Vectors by name: what a compiler makes of plain loops differs by version, and a peak that is too low would
// make honest programs look impossible.
typedef float Lanes __attribute__((vector_size(64), aligned(4)));
const int kLanes = 16;

template <int Chains, typename Step>
static float accumulated(int64_t steps, Step step) {
    Lanes chains[Chains] = {};
    for (int64_t s = 0; s < steps; s++) {
#pragma GCC unroll 16
        for (int k = 0; k < Chains; k++) step(chains[k], s * Chains + k);
    }
    float total = 0;
    for (Lanes chain : chains) {
        for (int k = 0; k < kLanes; k++) total += chain[k];
    }
    return total;
}

static float sum(const float *values, int64_t count) {
    const Lanes *lanes = reinterpret_cast<const Lanes *>(values);
    return accumulated<8>(count / (8 * kLanes), [=](Lanes &chain, int64_t i) { chain += lanes[i]; });
}

// As many multiply-adds in flight as two units with a latency of four cycles can take.
static float multiply_adds(int64_t steps, float factor) {
    Lanes by = Lanes{} + factor;
    return accumulated<12>(steps, [=](Lanes &chain, int64_t) { chain = chain * by + by; });
}

int main() {
    const int threads = omp_get_max_threads();
    const int64_t count = int64_t(16) << 20;  // 64 MiB a buffer
    const int64_t cached = 16 << 10;          // 64 KiB a thread
    std::vector<float> from(count, 1.0f), to(count, 2.0f);
    volatile float sink = 0;

    // Through the cache or past it, whichever is faster.
    auto copied = [&](bool is_streamed) {
        return best(8.0 * count, 7, [&] {
#pragma omp parallel for
            for (int t = 0; t < threads; t++) {
                int64_t start = count * t / threads, length = count * (t + 1) / threads - start;
                if (is_streamed) stream_copy(&to[start], &from[start], length);
                else std::memcpy(&to[start], &from[start], length * sizeof(float));
            }
        });
    };
    double copy = std::max(copied(false), copied(true));
    double read = best(4.0 * count, 7, [&] {
#pragma omp parallel for
        for (int t = 0; t < threads; t++) {
            int64_t start = count * t / threads, end = count * (t + 1) / threads;
            sink = sum(&from[start], end - start);
        }
    });
    const int rounds = 2000;
    double cache = best(4.0 * cached * rounds * threads, 7, [&] {
#pragma omp parallel for
        for (int t = 0; t < threads; t++) {
            for (int r = 0; r < rounds; r++) sink = sum(&from[cached * t], cached);
        }
    });
    const int64_t steps = 2000000;
    volatile float factor = 0.5f;
    double flops = best(2.0 * 12 * kLanes * steps * threads, 7, [&] {
#pragma omp parallel for
        for (int t = 0; t < threads; t++) sink = multiply_adds(steps, factor);
    });
    std::printf("%.6e %.6e %.6e %.6e\n", copy, read, cache, flops);
}
