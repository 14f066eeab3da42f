// What every CUDA C++ program may rely on. The build defines, once per variant:
//   VALUE  the storage type of values: float, __nv_bfloat16 or __half. All convert from and to float by themselves.
//   INDEX  the storage type of offsets: int32_t or int64_t
// A program defines one function with C linkage, named like the operator, with the arguments that the operator
// documents, in that order. Tensors are contiguous and aligned to one element; inputs are read-only; outputs hold
// garbage on entry, overlap no input, and must be written in full. A launch with a grid of 0 blocks does nothing.
#pragma once

#if defined(__CUDACC_RTC__)
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;  // as NVIDIA's own headers have it
typedef unsigned long long uint64_t;
typedef uint64_t uintptr_t;
#else
#include <cstdint>
#endif

#if defined(KEVOLVE_BFLOAT16)
#include <cuda_bf16.h>
#elif defined(KEVOLVE_FLOAT16)
#include <cuda_fp16.h>
#endif

#if !defined(INFINITY)
#define INFINITY __int_as_float(0x7f800000)
#endif

// N elements that are loaded and stored at once; its address must be a multiple of its size.
template <typename T, int N> struct alignas(sizeof(T) * N) Pack {
    T values[N];
};

// Blocks of `size` that hold `count` elements.
__device__ constexpr int64_t ceil_div(int64_t count, int64_t size) { return (count + size - 1) / size; }

// Is the address a multiple of `bytes`?
__device__ inline bool is_aligned(const void *pointer, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

// In the function that launches only: memory of this call, with anything in it or all zero; and zeros to where an
// output is added to. All of it happens in the order of the launches.
template <typename T> __device__ T *workspace(int64_t count);
template <typename T> __device__ T *zeroed_workspace(int64_t count);
template <typename T> __device__ void zero(T *pointer, int64_t count);

// What launches become where the compiler checks their types.
template <typename... Parameters> struct KevolveLaunch {
    __device__ void operator()(Parameters...) const {}
};
template <typename... Parameters>
__device__ KevolveLaunch<Parameters...> kevolve_launch(void (*)(Parameters...), dim3, dim3, uint64_t = 0);
