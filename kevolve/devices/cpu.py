"""The CPU device: C++ programs on all of this machine's cores."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, astuple
from functools import cached_property
from pathlib import Path
from typing import Any

from kevolve.cache import cache_dir, remember
from kevolve.devices.device import Device, Peaks
from kevolve.languages.cpp.headers import HEADER
from kevolve.languages.language import Target

_CPU0 = Path("/sys/devices/system/cpu/cpu0")
PEAKS_SOURCE = Path(__file__).with_name("peaks.cpp")


class Cpu(Device):
    """This machine's processor, with g++ as its toolchain.

    The timing lease takes every core (`exclusive`): one compiler beside a two-thread kernel ruins any ratio.
    """

    name = "cpu"
    languages = ("cpp",)
    exclusive = True

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """What the kernel says of the first core: `model name`, `cpu family`, `model`, ..."""
        first = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
        pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
        return {name.strip().lower(): value.strip() for name, value in pairs}

    @property
    def model(self) -> str:
        """The processor's own name for itself."""
        return self.facts.get("model name", platform.machine())

    @property
    def key(self) -> str:
        """cpu-<model>; family and model numbers are part of it, since clouds hide the model's name."""
        plain = re.sub(r"\((R|TM)\)|@.*|\bCPU\b", "", self.model, flags=re.IGNORECASE)
        numbers = [self.facts[name] for name in ("cpu family", "model") if name in self.facts]
        return "-".join(("cpu", *re.findall(r"[a-z0-9]+", plain.lower()), *numbers))

    @property
    def cores(self) -> int:
        """Cores that this process may use."""
        return len(os.sched_getaffinity(0))

    @cached_property
    def target(self) -> Target:
        """The exact instruction set of this machine as g++ flags; FileNotFoundError without g++."""
        version = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
        probe = ["g++", "-march=native", "-E", "-v", "-x", "c++", os.devnull]
        lines = subprocess.run(probe, capture_output=True, text=True, check=True).stderr.splitlines()
        words = next(line for line in lines if "cc1plus" in line).split()
        flags = tuple(
            word for word in words if re.fullmatch(r"-m[a-z0-9].*", word) and not word.startswith("-multiarch")
        )
        chosen = dict(flag[2:].split("=", 1) for flag in flags if "=" in flag)
        architecture = chosen.get("arch") or chosen.get("cpu") or platform.machine()
        return Target(architecture.split("+")[0], f"g++ {version}", (*flags, "-mtune=native"))

    def present(self) -> bool:
        """A CPU is always there; its toolchain may not be."""
        return shutil.which("g++") is not None

    def lacks(self) -> str:
        """What to install; empty if nothing is missing."""
        needs = "needs g++, which is not on this machine.\n  Type `apt-get install g++`, then try again"
        return "" if self.present() else needs

    def ray_options(self) -> dict[str, Any]:
        """The lease is one actor. It asks for no cores: the driver keeps everything else of ours still meanwhile."""
        return {"num_cpus": 0}

    def environment(self) -> Mapping[str, str]:
        """Threads, their places and wait policy, the same for program and baseline.

        Each thread has a core of its own: those of a process that has just been resumed would else start on one core,
        and how long until they part decides the time.
        """
        return {
            "OMP_NUM_THREADS": str(self.cores),
            "OMP_PROC_BIND": "TRUE",
            "OMP_PLACES": ",".join(f"{{{core}}}" for core in sorted(os.sched_getaffinity(0))),
            "OMP_WAIT_POLICY": "PASSIVE",
            "OMP_DYNAMIC": "FALSE",
            "MKL_NUM_THREADS": str(self.cores),
        }

    def peaks(self, *, again: bool = False) -> Peaks:
        """Measured in about two seconds the first time, then read from the cache; the greater of both if `again`."""
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
        facts = [self.model, self.cores, self.target.toolchain, self.target.flags, PEAKS_SOURCE.read_text()]
        digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
        return cache_dir() / f"peaks-{digest}.json"

    def _measure_peaks(self) -> Peaks:
        source, target = PEAKS_SOURCE, self.target
        with tempfile.TemporaryDirectory(prefix="kevolve-peaks-") as scratch:
            binary = Path(scratch, "peaks")
            command = [
                "g++",
                "-O3",
                "-ffast-math",
                "-fopenmp",
                *target.flags,
                f"-I{HEADER.parent}",
                str(source),
                "-o",
                str(binary),
            ]
            subprocess.run(command, check=True, capture_output=True)
            variables = {**os.environ, **self.environment()}
            output = subprocess.run([str(binary)], check=True, capture_output=True, text=True, env=variables).stdout
        copy, read, cache, flops = (float(word) for word in output.split())
        return Peaks(copy, max(copy, read), max(copy, read, cache), flops)

    @cached_property
    def cache_bytes(self) -> int:
        """Of the last-level cache, as the kernel tells it; 64 MiB if it does not."""
        sizes = [file.read_text().strip() for file in _CPU0.glob("cache/index*/size")]
        units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
        return max((int(size[:-1]) * units[size[-1]] for size in sizes), default=64 << 20)

    def conditions(self) -> dict[str, float]:
        """`load` (runnable processes, mean of the last minute), `stolen_s` (by the hypervisor so far), `throttled`."""
        stolen = Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]
        found = {"load": os.getloadavg()[0], "stolen_s": int(stolen) / os.sysconf("SC_CLK_TCK")}
        for name, file, scale in (
            ("mhz", _CPU0 / "cpufreq" / "scaling_cur_freq", 1e-3),
            ("throttled", _CPU0 / "thermal_throttle" / "package_throttle_count", 1.0),
        ):
            if file.exists():
                found[name] = float(file.read_text()) * scale
        return found

    def healthy(self) -> bool:
        """A CPU has no state that a program could leave behind broken."""
        return True
