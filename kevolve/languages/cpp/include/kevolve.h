// What every C++ program may rely on. The build defines, once per variant:
//   VALUE  the storage type of values: float or bfloat16
//   INDEX  the storage type of offsets: int32_t or int64_t
// A program defines one function with C linkage, named like the operator, with the arguments
// that the operator documents, in that order. Inputs are contiguous and read-only; outputs are contiguous,
// hold garbage on entry, overlap no input, and must be written in full.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

// IEEE single precision cut to its upper half; arithmetic happens in float. Loads and stores vectorise.
struct bfloat16 {
    uint16_t bits;

    bfloat16() = default;
    bfloat16(const bfloat16 &) = default;
    bfloat16 &operator=(const bfloat16 &) = default;

    bfloat16(float value) : bits(rounded(value)) {}

    // Without it an assignment goes through a temporary object, which compilers do not vectorise.
    bfloat16 &operator=(float value) {
        bits = rounded(value);
        return *this;
    }

    operator float() const {
        uint32_t word = static_cast<uint32_t>(bits) << 16;
        float value;
        std::memcpy(&value, &word, sizeof value);
        return value;
    }

  private:
    // To nearest, ties to even. A NaN stays a NaN.
    static uint16_t rounded(float value) {
        uint32_t word;
        std::memcpy(&word, &value, sizeof word);
        uint32_t nearest = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
        uint32_t quiet = (word >> 16) | 0x40u;
        return static_cast<uint16_t>(value != value ? quiet : nearest);
    }
};

// The compiler's own names for the stores: <immintrin.h> would double the time of a build.
#if defined(__AVX512F__) && !defined(__clang__)
typedef long long StreamLine __attribute__((vector_size(64)));
#define KEVOLVE_STREAM __builtin_ia32_movntdq512
#elif defined(__AVX2__) && !defined(__clang__)
typedef long long StreamLine __attribute__((vector_size(32)));
#define KEVOLVE_STREAM __builtin_ia32_movntdq256
#endif

// `count` elements to where they are not read again soon: whole cache lines are written past the cache, without
// being read into it first, where the chip can (AVX-512, AVX2). Where `from` is null, zeros are stored.
// When it returns, other threads see the stores as they would see ordinary ones.
template <typename T> inline void stream_copy(T *to, const T *from, int64_t count) {
    char *target = reinterpret_cast<char *>(to);
    const char *origin = reinterpret_cast<const char *>(from);
    size_t left = static_cast<size_t>(count) * sizeof(T);
    auto cached = [&](size_t size) {
        if (origin != nullptr) {
            std::memcpy(target, origin, size);
            origin += size;
        } else {
            std::memset(target, 0, size);
        }
        target += size;
        left -= size;
    };
#if defined(KEVOLVE_STREAM)
    size_t before = -reinterpret_cast<uintptr_t>(target) % 64;
    cached(before < left ? before : left);
    for (; left >= 64; left -= 64, target += 64) {
        for (size_t part = 0; part < 64; part += sizeof(StreamLine)) {
            StreamLine values = {};
            if (origin != nullptr) std::memcpy(&values, origin + part, sizeof values);
            KEVOLVE_STREAM(reinterpret_cast<StreamLine *>(target + part), values);
        }
        if (origin != nullptr) origin += 64;
    }
    cached(left);
    __builtin_ia32_sfence();
#else
    cached(left);
#endif
}

// `count` zeros, past the cache like stream_copy.
template <typename T> inline void stream_zero(T *to, int64_t count) {
    stream_copy(to, static_cast<const T *>(nullptr), count);
}
