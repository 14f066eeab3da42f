"""A device's target as Triton's compiler takes it, and what was built for it in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kevolve.languages.language import Target


def targets(target: Target) -> list[dict[str, Any]]:
    """Each architecture with Triton's (backend, architecture, threads of a warp) and a block's shared memory.

    `sm_90` with the flag `shared_bytes=N`, or `gfx942+gfx950` with a flag `gfx942=N` for each. OSError for others.
    """
    flags = {name: int(size) for name, size in (flag.split("=") for flag in target.flags)}
    if target.architecture.startswith("sm_"):
        triton = ["cuda", int(target.architecture.removeprefix("sm_")), 32]
        return [{"architecture": target.architecture, "triton": triton, "shared_bytes": flags["shared_bytes"]}]
    names = target.architecture.split("+")
    if not all(name.startswith("gfx9") for name in names):  # those after have wavefronts of 32
        raise OSError(f"Triton programs are not built for {target.architecture}")
    return [{"architecture": name, "triton": ["hip", name, 64], "shared_bytes": flags[name]} for name in names]


def facts(kernels: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What the program takes, the most of any of its kernels; for AMD GPUs in one line for each architecture."""
    found = {"specialisations": str(len({str(kernel["key"]) for kernel in kernels}))}
    of_amd = [kernel for kernel in kernels if "matrix_instructions" in kernel]
    for name in dict.fromkeys(kernel["architecture"] for kernel in of_amd):
        found[name] = _of_amd([kernel for kernel in of_amd if kernel["architecture"] == name])
    if not of_amd:
        found["registers"] = str(max((kernel["registers"] for kernel in kernels), default=0))
        found["shared_bytes"] = str(max((kernel["shared_bytes"] for kernel in kernels), default=0))
    return found


def _of_amd(kernels: Sequence[Mapping[str, Any]]) -> str:
    most = {name: max(kernel[name] for kernel in kernels) for name in kernels[0] if isinstance(kernels[0][name], int)}
    count = most["matrix_instructions"]
    spills = most["spilled_registers"] + most["spilled_scalar_registers"]
    return (
        f"{most['registers']} VGPRs, {most['scalar_registers']} SGPRs, {most['shared_bytes']} bytes of LDS,"
        f" {f'{spills} registers spilled' if spills else 'no spills'}, {most['scratch_bytes']} bytes of scratch,"
        f" {f'{count} MFMA instructions' if count else 'no MFMA'}, {most['threads']} threads in wavefronts of"
        f" {most['wavefront']}"
    )
