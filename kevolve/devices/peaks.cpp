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

static float sum(const float *values, int64_t count) {
    float lanes[128] = {};
    for (int64_t i = 0; i + 128 <= count; i += 128) {
        for (int k = 0; k < 128; k++) lanes[k] += values[i + k];
    }
    float total = 0;
    for (float lane : lanes) total += lane;
    return total;
}

int main() {
    const int threads = omp_get_max_threads();
    const int64_t count = int64_t(16) << 20;  // 64 MiB a buffer
    const int64_t cached = 16 << 10;          // 64 KiB a thread
    std::vector<float> from(count, 1.0f), to(count, 2.0f);
    volatile float sink = 0;

    double copy = best(8.0 * count, 7, [&] {
#pragma omp parallel for
        for (int t = 0; t < threads; t++) {
            int64_t start = count * t / threads, end = count * (t + 1) / threads;
            std::memcpy(&to[start], &from[start], (end - start) * sizeof(float));
        }
    });
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
    const int64_t steps = 400000;
    double flops = best(2.0 * 128 * steps * threads, 7, [&] {
#pragma omp parallel for
        for (int t = 0; t < threads; t++) {
            float lanes[128];
            for (int k = 0; k < 128; k++) lanes[k] = from[k];
            for (int64_t s = 0; s < steps; s++) {
                for (int k = 0; k < 128; k++) lanes[k] = lanes[k] * 0.5f + 1.0f;
            }
            sink = lanes[t];
        }
    });
    std::printf("%.6e %.6e %.6e %.6e\n", copy, read, cache, flops);
}
