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
