"""The machine: system, cores, memory, and the limits that a container or a shell puts on them."""

from __future__ import annotations

import os
import platform
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

from kevolve.config import Config
from kevolve.doctor.finding import Finding

GIB = 2**30
SHARED_MEMORY_GIB = 0.5  # what Ray's object store is given
OPEN_FILES = 1024  # Ray and its workers hold some hundreds
BUSY_SHARE = 0.5  # of the cores, that others may use before timings suffer
QUOTAS = ("cpu.max", "cpu/cpu.cfs_quota_us")  # of control groups, version 2 and 1
CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io")
# Variables that change what is measured, and hold nothing secret. Of others only the names are shown.
SHOWN = ("CXX", "CPATH", "KEVOLVE_CACHE", "LD_PRELOAD", "OMP_", "GOMP_", "MKL_", "PYTHONPATH", "TMPDIR")
NAMED = ("RAY_", "MLFLOW_", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def machine() -> Iterator[Finding]:
    release = platform.freedesktop_os_release().get("PRETTY_NAME", "") if Path("/etc/os-release").exists() else ""
    where = [release or platform.system(), f"kernel {platform.release()}", platform.machine()]
    where += ["in a container"] * any(Path(mark).exists() for mark in CONTAINER_MARKS)
    where += ["on a virtual machine"] * ("hypervisor" in _cpuinfo())
    yield Finding("system", ", ".join(where))
    cores, memory = len(os.sched_getaffinity(0)), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    few = "timings need a core to themselves: give this machine two or more" if cores < 2 else ""
    yield Finding("cores", f"{cores} for this process of {os.cpu_count()}", few)
    quota = cpu_quota()
    if quota is not None and quota < cores:
        mend = f"a quota interrupts programs while they are timed: docker run --cpuset-cpus=0-{max(1, int(quota)) - 1}"
        yield Finding("cores", f"a control group grants {quota:g} cores' time on {cores} cores", f"{mend}, not --cpus")
    load = os.getloadavg()[0]
    busy = "stop what else runs: it is timed along with the programs" if load > cores * BUSY_SHARE else ""
    yield Finding("load", f"{load:.1f} in the last minute", busy)
    yield Finding("memory", f"{memory:.1f} GiB, {_available() / GIB:.1f} GiB available")


def limits(config: Config) -> Iterator[Finding]:
    granted = _memory_limit()
    wanted = config.judge.memory_gib
    if granted is not None:
        small = f"judge.memory_gib={max(0.5, granted / GIB / 2):g}, or more memory for this container"
        state = f"a control group grants {granted / GIB:.1f} GiB"
        yield Finding("memory", state, small if granted < wanted * GIB else "")
    place = Path("/dev/shm")
    free = shutil.disk_usage(place).free / GIB if place.is_dir() else 0.0
    lacks = "in a container: docker run --shm-size=1g ..." if free < SHARED_MEMORY_GIB else ""
    yield Finding("shared memory", f"{free:.2f} GiB free in {place}", lacks)
    files, processes = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    unlimited = (resource.RLIM_INFINITY, -1)
    shown = [f"{count if count not in unlimited else 'any number of'} {what}" for count, what in
             ((files, "open files"), (processes, "processes"))]  # fmt: skip
    few = f"ulimit -n {4 * OPEN_FILES}" if files not in unlimited and files < OPEN_FILES else ""
    yield Finding("limits", ", ".join(shown), few)


def variables() -> Iterator[Finding]:
    shown = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(SHOWN)]
    named = [name for name in sorted(os.environ) if name.startswith(NAMED)]
    yield Finding("environment", ", ".join([*shown, *named]) or "nothing that matters is set")
    if os.environ.get("LD_PRELOAD"):
        yield Finding("environment", "LD_PRELOAD puts a library into every program", "unset LD_PRELOAD")


def cpu_quota(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Cores' worth of time that a control group grants; None without a quota."""
    for name in QUOTAS:
        words = _words(root / name)
        if name.endswith("_us"):
            words += _words(root / name.replace("quota", "period"))
        if len(words) == 2 and words[0].isdigit():
            return int(words[0]) / int(words[1])
    return None


def _memory_limit(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that a control group grants; None where that is no less than what there is."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        words = _words(root / name)
        if words and words[0].isdigit() and int(words[0]) < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
            return int(words[0])
    return None


def _available() -> int:
    """Bytes that can be had without swapping."""
    rows = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(rows["MemAvailable"].split()[0]) * 1024


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def _cpuinfo() -> str:
    return Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
