"""A kernel that does nothing, for children to wake the device up with. Compiled by the judge, once."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def nothing():  # type: ignore[no-untyped-def]
    """No arguments and no effect."""


@cache
def compiled_nothing(architecture: str) -> dict[str, Any]:
    """What `load.Loaded` needs of it, as JSON, for a target such as sm_90."""
    target = GPUTarget("cuda", int(architecture.removeprefix("sm_")), 32)
    kernel = triton.compile(ASTSource(nothing, {}), target=target, options={"num_warps": 1})
    ptx = kernel.asm["ptx"]
    hidden = ptx[ptx.index(".entry") :].partition(")")[0].count(".param")
    about = {"name": kernel.metadata.name, "threads": 32, "shared_bytes": 0, "scratch_bytes": 0, "hidden": hidden}
    return {**about, "key": ["nothing", [], []], "cubin": base64.b64encode(kernel.asm["cubin"]).decode()}
