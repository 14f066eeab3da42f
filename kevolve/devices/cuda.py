"""The CUDA device: Triton and CUDA C++ programs on an NVIDIA GPU of this machine."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kevolve.cache import cache_dir, remember
from kevolve.devices.cuda_driver import CudaError, Driver
from kevolve.devices.device import Device, Peaks
from kevolve.devices.sensors import Sensors
from kevolve.languages.cuda.nvrtc import CompileError, Compiler, installation
from kevolve.languages.language import Target

_BYTES_PER_CLOCK = 64  # that one multiprocessor can take in from the level-two cache
_PROBE_SECONDS = 5.0


class Cuda(Device):
    """The first visible NVIDIA GPU, with Triton as its toolchain, and NVRTC where there is one.

    Building and proposing go on while it measures: they use the CPU. PyTorch must have been built for CUDA.
    """

    name = "cuda"
    languages: tuple[str, ...] = ("triton", "cuda")
    exclusive = False

    def __init__(self) -> None:
        if not nvrtc_version() or find_spec("tree_sitter_cuda") is None:
            self.languages = ("triton",)

    @cached_property
    def driver(self) -> Driver | None:
        """The driver; None where there is none, or no GPU. Who has asked must not fork, only start programs."""
        try:
            driver = Driver()
            return driver if driver.count() else None
        except (OSError, CudaError):
            return None

    @property
    def _present_driver(self) -> Driver:
        if self.driver is None:
            raise RuntimeError("there is no CUDA device here")
        return self.driver

    @property
    def model(self) -> str:
        """The GPU's own name for itself."""
        return self._present_driver.name()

    @property
    def key(self) -> str:
        """Such as nvidia-h200: the same chip has the same key on every machine."""
        words = re.findall(r"[a-z0-9]+", self.model.lower())
        return "-".join(words if words[:1] == ["nvidia"] else ["nvidia", *words])

    @cached_property
    def target(self) -> Target:
        """The architecture and its shared memory for a block; the compilers."""
        driver = self._present_driver
        capability = f"sm_{driver.attribute('major')}{driver.attribute('minor')}"
        return Target(capability, toolchain(), (f"shared_bytes={driver.attribute('shared_bytes')}",))

    def present(self) -> bool:
        """A GPU that the driver sees, Triton to program it with, and a PyTorch that can use it."""
        return not self.lacks()

    def lacks(self) -> str:
        """What is missing, and what to type; empty if nothing is."""
        if self.driver is None:
            return "no NVIDIA GPU that its driver sees. Look at `nvidia-smi`"
        if find_spec("triton") is None:
            return "Triton is not installed. Type `pip install triton`"
        torch = find_spec("torch")
        if torch is None or not (Path(str(torch.origin)).parent / "lib" / "libtorch_cuda.so").exists():
            return "PyTorch is the build without CUDA. Install the one for CUDA (pytorch.org)"
        return ""

    def ray_options(self) -> dict[str, Any]:
        """One GPU to itself, and a core to launch from."""
        return {"num_gpus": 1, "num_cpus": 1}

    def environment(self) -> Mapping[str, str]:
        """Which GPU, and that its kernels are loaded before they are timed."""
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        chosen = {"CUDA_VISIBLE_DEVICES": visible} if visible else {}
        return {**chosen, "CUDA_MODULE_LOADING": "EAGER"}

    @property
    def cache_bytes(self) -> int:
        """Of the level-two cache."""
        return self._present_driver.attribute("l2_bytes")

    @cached_property
    def _sensors(self) -> Sensors | None:
        return Sensors.of(self._present_driver.pci_address())

    def conditions(self) -> dict[str, float]:
        """`mhz`, `celsius`, `watts` and `throttled` (reasons, as a bit set) now, and the CPUs' `load`."""
        found = {"load": os.getloadavg()[0]}
        return found | (self._sensors.read() if self._sensors else {})

    def peaks(self, *, again: bool = False) -> Peaks:
        """Measured in about a second the first time, then read from the cache; the greater of both if `again`."""
        known = self.known_peaks()
        if known is not None and not again:
            return known
        peaks = self._measure_peaks()
        if known is not None:
            peaks = Peaks(*map(max, astuple(peaks), astuple(known)))
        remember(self._peaks_file, json.dumps(asdict(peaks)).encode())
        return peaks

    def known_peaks(self) -> Peaks | None:
        """What the cache remembers; None before the first measurement, or if the file cannot be read."""
        try:
            return Peaks(**json.loads(self._peaks_file.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    @property
    def _peaks_file(self) -> Path:
        driver = self._present_driver
        facts = [self.model, driver.memory(), driver.attribute("multiprocessors"), Path(__file__).read_text()]
        digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
        return cache_dir() / f"peaks-{digest}.json"

    def _measure_peaks(self) -> Peaks:
        """Memory and matrix rates through PyTorch; what the cache can deliver from the chip's width and clock.

        A loop that measures the cache from outside a kernel measures its launches; no honest program exceeds the width.
        """
        import torch

        driver = self._present_driver
        count = min(1 << 30, driver.memory() // 16) // 4
        numbers, others = torch.rand(count, device="cuda"), torch.empty(count, device="cuda")
        copy = _best(8 * count, lambda: others.copy_(numbers))
        read = _best(4 * count, lambda: numbers.sum())
        size = 8192
        matrix = torch.rand(size, size, device="cuda", dtype=torch.bfloat16)
        flops = _best(2 * size**3, lambda: matrix @ matrix)
        clock = driver.attribute("clock_khz") * 1e3
        cache = driver.attribute("multiprocessors") * _BYTES_PER_CLOCK * clock
        return Peaks(copy, max(copy, read), max(copy, read, cache), flops)

    def healthy(self) -> bool:
        """Does a kernel of ours still run and give the right answer, within seconds?"""
        import torch

        event: Any = torch.cuda.Event
        try:
            done = event()
            ones = torch.ones(1 << 16, device="cuda")
            total = ones.sum()
            done.record()
            deadline = time.monotonic() + _PROBE_SECONDS
            while not done.query():
                if time.monotonic() > deadline:
                    return False
            return float(total) == len(ones)
        except RuntimeError:
            return False


def triton_version() -> str:
    """Such as `triton 3.6.0`."""
    try:
        return f"triton {version('triton')}"
    except PackageNotFoundError:
        return "no triton"


def toolchain() -> str:
    """The versions of Triton, of its assembler, and of NVRTC where there is one."""
    return ", ".join([_triton_toolchain(), *([f"NVRTC {nvrtc_version()}"] if nvrtc_version() else [])])


@cache
def nvrtc_version() -> str:
    """Such as 13.0; empty where it is missing or cannot be loaded."""
    try:
        return Compiler(installation().library).version
    except (OSError, CompileError):
        return ""


def _triton_toolchain() -> str:
    found = triton_version()
    spec = find_spec("triton")
    assembler = Path(str(spec.origin)).parent / "backends" / "nvidia" / "bin" / "ptxas" if spec else Path()
    try:
        told = subprocess.run([str(assembler), "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return found
    release = re.search(r"release ([\d.]+)", told)
    return f"{found}, ptxas {release[1]}" if release else found


def _best(amount: float, work: Callable[[], object]) -> float:
    """`amount` a second, by the best of several runs: interference only ever makes a machine look slower than it is."""
    import torch

    event: Any = torch.cuda.Event
    work()
    fastest = 0.0
    for _ in range(10):
        start, end = (event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        fastest = max(fastest, amount / (start.elapsed_time(end) * 1e-3))
    return fastest
