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
#if defined(__AVX2__)
#include <immintrin.h>
#endif

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
#if defined(__AVX2__)
    size_t before = -reinterpret_cast<uintptr_t>(target) % 64;
    cached(before < left ? before : left);
    for (; left >= 64; left -= 64, target += 64) {
        const char *line = origin;
        origin = line != nullptr ? line + 64 : nullptr;
#if defined(__AVX512F__)
        __m512i values = line != nullptr ? _mm512_loadu_si512(line) : _mm512_setzero_si512();
        _mm512_stream_si512(reinterpret_cast<__m512i *>(target), values);
#else
        for (int half = 0; half < 64; half += 32) {
            const __m256i *part = reinterpret_cast<const __m256i *>(line + half);
            __m256i values = line != nullptr ? _mm256_loadu_si256(part) : _mm256_setzero_si256();
            _mm256_stream_si256(reinterpret_cast<__m256i *>(target + half), values);
        }
#endif
    }
    cached(left);
    _mm_sfence();
#else
    cached(left);
#endif
}

// `count` zeros, past the cache like stream_copy.
template <typename T> inline void stream_zero(T *to, int64_t count) {
    stream_copy(to, static_cast<const T *>(nullptr), count);
}
