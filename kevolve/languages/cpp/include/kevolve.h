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

// IEEE single precision cut to its upper half; arithmetic happens in float.
struct bfloat16 {
    uint16_t bits;

    bfloat16() = default;

    // Rounds to nearest, ties to even. A NaN stays a NaN.
    bfloat16(float value) {
        uint32_t word;
        std::memcpy(&word, &value, sizeof word);
        uint32_t rounded = word + 0x7fffu + ((word >> 16) & 1u);
        bits = value != value ? static_cast<uint16_t>((word >> 16) | 0x40u) : static_cast<uint16_t>(rounded >> 16);
    }

    operator float() const {
        uint32_t word = static_cast<uint32_t>(bits) << 16;
        float value;
        std::memcpy(&value, &word, sizeof value);
        return value;
    }
};
