"""The ROCm device: Triton programs for AMD's CDNA GPUs, built for real and never run on one.

kevolve has no judge for an AMD GPU's memory. Until it has, this device is for `kevolve judge --device rocm`: programs
are screened for wavefronts of 64, compiled for every architecture below with what they take read out of the result,
and tried on small inputs in Triton's interpreter. The verdict is `Unverified`: neither a score nor a champion.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from kevolve.devices.cuda import triton_version
from kevolve.devices.elsewhere import Elsewhere
from kevolve.languages.language import Target

# The local data share of a workgroup: CDNA 3 and CDNA 4 instruction set architecture reference guides, AMD.
LDS_BYTES = {"gfx942": 64 << 10, "gfx950": 160 << 10}
_KERNEL_DRIVER = Path("/dev/kfd")


class Rocm(Elsewhere):
    """The chips MI300 (gfx942) and MI350 (gfx950), as targets."""

    name = "rocm"
    languages = ("triton",)
    stages_anywhere = ("screen", "build", "correctness")

    @property
    def key(self) -> str:
        """Of all its targets together: no champion ever has it."""
        return "-".join(("amd", *LDS_BYTES))

    @property
    def target(self) -> Target:
        """Every architecture, with the memory that a workgroup has there."""
        flags = tuple(f"{name}={size}" for name, size in LDS_BYTES.items())
        return Target("+".join(LDS_BYTES), f"{triton_version()}, its LLVM", flags)

    def lacks(self) -> str:
        """That nothing is timed on it, and what can be had instead."""
        if find_spec("triton") is None:
            return "Triton is not installed. Type `pip install triton`"
        seen = "there is an AMD GPU" if _KERNEL_DRIVER.exists() else "there is no AMD GPU"
        return (
            f"{seen}, and kevolve cannot time programs on one yet, so a search would have nothing to choose by.\n"
            "  What can be had is whether one program builds for gfx942 and gfx950, what it takes there, and whether it"
            " is right in Triton's interpreter: kevolve judge FILE --operator O --device rocm. Whoever has a judge for"
            " the chip registers it under the entry point kevolve.devices, name rocm (CONTRIBUTING.md, Add a device)"
        )
