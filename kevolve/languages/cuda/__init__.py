"""CUDA C++: a program is one `.cu` file with `__global__` kernels and one function that launches them.

The function is `extern "C" void`, named like its operator, and takes the operator's arguments in order: inputs, outputs
(to be written in full), sizes as int64_t. `include/kevolve_cuda.h` says what a program may rely on; VALUE and INDEX are
the types of values and offsets, once per variant. What a program may be:

- Kernels are ordinary CUDA C++, templates, inline PTX and `extern __shared__` included. Between calls they keep
  nothing: tables go into `__constant__`, scratch memory comes from `workspace`. They do not print, allocate or read a
  clock.
- A function that launches has variables of numbers, pointers and `dim3`, if, for and while, arithmetic, `ceil_div`,
  `min`, `max`, `is_aligned`, `sizeof`, casts, `workspace<T>(count)`, `zeroed_workspace<T>(count)`,
  `zero(pointer, count)`, and `kernel<<<grid, block, shared_bytes>>>(...)`. It may call functions of the same kind.

Nothing of it ever runs on the CPU as machine code. The function is translated from its text (`translate.py`) to Python
that can do nothing but compute and launch (`host.py`), which the build traces and which launches beside the judge
(`load.py`); its types are checked by the compiler all the same. Kernels are compiled by NVRTC, without a device, and
looked up in what came out (`compiling.py`). So the text may say what it likes: what is launched is what was built.
"""
