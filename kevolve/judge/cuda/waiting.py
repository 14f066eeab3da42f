"""A kernel that keeps the device waiting while calls are queued behind it. Compiled by the judge, once.

With nothing to wait for it wakes the device up.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language.extra.cuda import globaltimer


@triton.jit
def wait(nanoseconds):  # type: ignore[no-untyped-def]
    """Look at the device's clock until that much has gone by."""
    began = globaltimer()
    now = began
    while now - began < nanoseconds:
        now = globaltimer()


@cache
def compiled_wait(architecture: str) -> dict[str, Any]:
    """What `load.Loaded` needs of it, as JSON, for a target such as sm_90."""
    target = GPUTarget("cuda", int(architecture.removeprefix("sm_")), 32)
    kernel = triton.compile(ASTSource(wait, {"nanoseconds": "i32"}), target=target, options={"num_warps": 1})
    ptx = kernel.asm["ptx"]
    hidden = ptx[ptx.index(".entry") :].partition(")")[0].count(".param") - 1
    about = {"name": kernel.metadata.name, "threads": 32, "shared_bytes": 0, "scratch_bytes": 0, "hidden": hidden}
    return {**about, "key": ["wait", [["i32"]], []], "cubin": base64.b64encode(kernel.asm["cubin"]).decode()}
