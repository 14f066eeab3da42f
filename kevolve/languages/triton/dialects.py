"""What each device makes of Triton: the options of a launch, and what it lacks with what to use instead.

`screen.py` is about what a program may reach, and the same everywhere. This is about what a device can do with it:
data, so that what is learned of a compiler is a line here. A rule refuses only what is known to fail or to mean nothing
there; whatever is in no rule is the compiler's to refuse.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Dialect:
    """A device's. Every text says what to use instead.

    `options` of a launch there are; `no_options` are those of other devices. `most_warps` a program of the grid has,
    each of `warp_threads`. `lacks` names functions (`tl.NAME`), `lacks_in_loops` those that fail in a loop only,
    `no_values` values of a function's argument, and `libdevice` all functions that there are (None: any).
    """

    name: str
    options: tuple[str, ...]
    no_options: Mapping[str, str]
    warp_threads: int = 32
    most_warps: int = 32
    lacks: Mapping[str, str] = field(default_factory=dict)
    lacks_in_loops: Mapping[str, str] = field(default_factory=dict)
    no_values: Mapping[tuple[str, str], str] = field(default_factory=dict)
    no_arguments: Mapping[str, str] = field(default_factory=dict)
    libdevice: tuple[str, ...] | None = None


_REGISTERS = "waves_per_eu=N asks the compiler for few enough registers that N wavefronts fit a SIMD unit"
_NOT_NVIDIA = "it is an option of AMD's compiler: leave it out, maxnreg=N bounds the registers here"
_CUDA = Dialect(
    "cuda",
    ("num_warps", "num_stages", "maxnreg"),
    {
        "waves_per_eu": _NOT_NVIDIA,
        "matrix_instr_nonkdim": "it is an option of AMD's compiler: leave it out",
        "kpack": "it is an option of AMD's compiler: leave it out",
        "cb_multiplier": "it is an option of MTIA's compiler: num_stages pipelines loads here",
        "use_dual_core": "it is an option of MTIA's compiler: leave it out",
    },
)
# Options: `HIPOptions` in triton/backends/amd/compiler.py of Triton 3.7. A wavefront has 64 threads on CDNA and a
# workgroup at most 1024 (HIP programming guide), so as many warps are twice as many threads as on NVIDIA.
_ROCM = Dialect(
    "rocm",
    ("num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim", "kpack"),
    {
        "maxnreg": f"NVIDIA's assembler reads it, AMD's compiler does not: {_REGISTERS}",
        "cb_multiplier": "it is an option of MTIA's compiler: num_stages pipelines loads here",
        "use_dual_core": "it is an option of MTIA's compiler: leave it out",
    },
    warp_threads=64,
    most_warps=16,
    # `allowed_dot_input_precisions` there: tf32 on gfx942 only, and tf32x3 on neither.
    no_values={
        ("input_precision", "tf32"): "gfx950 has no such matrix instruction: 'bf16x3' or 'ieee'",
        ("input_precision", "tf32x3"): "it is made of TF32 matrix instructions: 'bf16x6' or 'ieee'",
    },
)
# From what has been published of generating Triton for MTIA: the KernelEvolve paper (what its documents for MTIA
# teach, and that tl.where fails to compile in a loop). Two RISC-V cores and fixed-function units make a processing
# element, fed by DMA through circular buffers: warps, stages of shared memory and cache hints have no counterpart.
_BUFFERS = "data comes by DMA through circular buffers: cb_multiplier=N makes them N times as deep"
_MTIA = Dialect(
    "mtia",
    ("cb_multiplier", "use_dual_core"),
    {
        "num_warps": "a processing element has two cores and no warps: use_dual_core=True has one of them move data",
        "num_stages": _BUFFERS,
        "maxnreg": "there is no register file shared by threads: leave it out",
        "waves_per_eu": "there are no wavefronts: leave it out",
        "matrix_instr_nonkdim": "it is an option of AMD's compiler: leave it out",
        "kpack": "it is an option of AMD's compiler: leave it out",
    },
    lacks={"debug_barrier": "tl.pe_runtime_barrier() is the barrier"},
    lacks_in_loops={
        "where": "it does not compile in a loop: choose by the mask and `other` of tl.load and the mask of tl.store,"
        " by tl.maximum or tl.minimum, or after the loop"
    },
    no_arguments={"cache_modifier": _BUFFERS, "eviction_policy": _BUFFERS},
    # What its special function unit has tables for.
    libdevice=("exp", "gelu", "log", "sigmoid", "tanh"),
)
DIALECTS = {dialect.name: dialect for dialect in (_CUDA, _ROCM, _MTIA)}


def foreign(source: str, device: str) -> str:
    """What `device` cannot do of a program that has passed the screen, in a sentence; empty if nothing is known."""
    dialect = DIALECTS.get(device)
    if dialect is None:
        return ""
    module = ast.parse(source)
    numbers = {
        target.id: node.value.value
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = [*_found(module, dialect, numbers, is_loop=False)]
    return min(found)[1] if found else ""


def _found(
    node: ast.AST, dialect: Dialect, numbers: Mapping[str, object], *, is_loop: bool
) -> Iterator[tuple[int, str]]:
    """(line, what is wrong there), of a node and all below it."""
    if isinstance(node, ast.Call):
        for wrong in _wrong_call(node, dialect, numbers, is_loop):
            yield node.lineno, f"line {node.lineno}: on {dialect.name} {wrong}"
    for inner in ast.iter_child_nodes(node):
        yield from _found(inner, dialect, numbers, is_loop=is_loop or isinstance(node, ast.For | ast.While))


def _wrong_call(node: ast.Call, dialect: Dialect, numbers: Mapping[str, object], is_loop: bool) -> Iterator[str]:
    if isinstance(node.func, ast.Subscript):
        yield from _wrong_launch(node, dialect, numbers)
        return
    whole = ast.unparse(node.func)
    owner, _, name = whole.rpartition(".")
    if owner == "tl" and name in dialect.lacks:
        yield f"there is no {whole}: {dialect.lacks[name]}"
    if is_loop and owner == "tl" and name in dialect.lacks_in_loops:
        yield f"there is no {whole} here: {dialect.lacks_in_loops[name]}"
    if owner == "libdevice" and dialect.libdevice is not None and name not in dialect.libdevice:
        yield f"there is no {whole}; libdevice has {', '.join(dialect.libdevice)}: use one of them, or tl's arithmetic"
    for keyword in node.keywords if owner == "tl" else ():
        argument = str(keyword.arg)
        value = str(keyword.value.value) if isinstance(keyword.value, ast.Constant) else ""
        if argument in dialect.no_arguments:
            yield f"{whole} has no {argument}: {dialect.no_arguments[argument]}"
        if (argument, value) in dialect.no_values:
            yield f"{argument}={value!r} cannot be had: {dialect.no_values[argument, value]}"


def _wrong_launch(node: ast.Call, dialect: Dialect, numbers: Mapping[str, object]) -> Iterator[str]:
    for keyword in node.keywords:
        option = str(keyword.arg)
        if option in dialect.no_options:
            yield f"a launch has no {option}: {dialect.no_options[option]}"
        elif option == "num_warps":
            given = keyword.value
            value = numbers.get(given.id) if isinstance(given, ast.Name) else getattr(given, "value", None)
            if isinstance(value, int) and value > dialect.most_warps:
                yield too_many_warps(value, dialect)


def too_many_warps(warps: int, dialect: Dialect) -> str:
    """The sentence about a launch with more threads than a device takes."""
    threads, most = dialect.warp_threads, dialect.most_warps
    return (
        f"num_warps={warps} is {warps * threads} threads, since a warp has {threads}; at most {most * threads}"
        f" can be launched together: num_warps={most} or fewer"
    )
