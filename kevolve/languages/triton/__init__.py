"""Triton: a program is one Python file with `@triton.jit` kernels and one function that launches them.

The function is named like its operator and takes the operator's arguments in order: inputs, outputs (to be written in
full), scalars as int. Tensors are contiguous and aligned to one element. What a program may be:

- It imports `triton`, `triton.language as tl`, `torch` and `libdevice` from `triton.language.extra`, nothing else.
- At module level it has numbers (`ROWS = 32`), kernels, and functions that launch them.
- A function that launches computes with numbers (loops and branches on sizes included), asks tensors for `shape`,
  `dtype`, `numel()`, `size()`, `stride()` and `element_size()`, gets workspace from `torch.empty` or `torch.zeros`
  (`empty_like`, `zeros_like`), and launches: `kernel[grid](..., num_warps=8)`. It keeps nothing between calls.
- Kernels are ordinary Triton. `dialects.py` has the options of a launch for each device, and what that device lacks.

That is little enough for its meaning to be checked from the text (`screen.py`): such a function cannot reach into the
process that runs and times it. In return the file needs neither Triton nor PyTorch to run: the build finds every
specialisation that the workloads launch by running the function on tensors that hold no data (`host.py`), compiles each
for the target (`compiling.py`), and what runs beside the judge is these binaries and a launcher (`load.py`). The same
file is an ordinary Triton program on any other machine.
"""
