"""The doctor: what this machine has and lacks, and what to type to mend it. `python -m kevolve.doctor [key=value ...]`.

It takes the arguments of `kevolve run` and looks at what such a run would use. Exit status 0 if programs can be
evolved on the cpu device here, 1 if not, 2 if the arguments are wrong.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import kevolve
from kevolve.config import Config
from kevolve.errors import UsageError
from kevolve.paths import cache_dir

PACKAGES = ("ray", "mlflow", "pyarrow", "hydra-core", "omegaconf", "deap", "rich", "tree-sitter", "tree-sitter-cpp")
OPTIONAL = {"fbgemm-gpu-cpu": "a further library to measure against: pip install fbgemm-gpu-cpu"}
OPENMP = "#include <omp.h>\nint main() { return omp_get_max_threads() > 0 ? 0 : 1; }\n"
SHARED_MEMORY_GIB = 0.5  # what Ray's object store is given
APT = "apt-get install"


@dataclass(frozen=True)
class Finding:
    """One thing looked at. Without `mend` it is well; `needed` says that the cpu path does not work without it."""

    what: str
    state: str
    mend: str = ""
    needed: bool = False

    @property
    def is_lacking(self) -> bool:
        return bool(self.mend) and self.needed

    def __str__(self) -> str:
        mark = "ok  " if not self.mend else "LACK" if self.needed else "note"
        line = f"{mark}  {self.what:<15} {self.state}"
        return f"{line}\n{'':<22}{self.mend}" if self.mend else line


def main(arguments: Sequence[str] | None = None) -> int:
    """Look at everything and print it. Returns the exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if "--help" in given or "-h" in given:
        print(__doc__)
        return 0
    lacking = _show([*_python(), *_packages()])
    if lacking:  # the rest of kevolve cannot even be imported
        return _conclude(lacking)
    from kevolve.configuration import load_config

    try:
        config = load_config(given)
    except UsageError as error:
        print(f"kevolve: {error}", file=sys.stderr)
        return 2
    return _conclude(_show(examine(config)))


def _show(findings: Iterable[Finding]) -> int:
    """Print each as it is made; returns how many are in the way."""
    lacking = 0
    for finding in findings:
        print(finding, flush=True)
        lacking += finding.is_lacking
    return lacking


def _conclude(lacking: int) -> int:
    print(f"\nThe cpu device cannot be used yet: mend what says LACK ({lacking})." if lacking else "\nReady to evolve.")
    return 1 if lacking else 0


def examine(config: Config) -> Iterator[Finding]:
    """What depends on the machine and the configuration. PyTorch is imported beside the other checks."""
    torch = subprocess.Popen(
        [sys.executable, "-c", "import torch; print(torch.__version__)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield from _compilers()
    yield _processor()
    yield from _shared_memory()
    yield _sandbox(config)
    yield from _devices(config)
    yield from _folders(config)
    yield _mlflow(config)
    yield _torch(torch)


def _python() -> Iterator[Finding]:
    here = f"{platform.python_version()} ({sys.executable}), kevolve {kevolve.__version__}"
    works = (3, 11) <= sys.version_info[:2] < (3, 14)
    yield Finding("python", here, "" if works else "use Python 3.11 to 3.13: make setup PYTHON=python3.12", needed=True)


def _packages() -> Iterator[Finding]:
    found, missing = [], []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    yield Finding("packages", ", ".join(found))
    if missing:
        yield Finding(
            "packages", f"not installed: {', '.join(missing)}", "make setup, or pip install -e .", needed=True
        )
    for package, mend in OPTIONAL.items():
        try:
            yield Finding("packages", f"{package} {version(package)} (optional)")
        except PackageNotFoundError:
            yield Finding("packages", f"{package} is not installed (optional)", mend)


def _torch(process: subprocess.Popen[str]) -> Finding:
    try:
        output, complaint = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Finding(
            "torch", "import torch takes more than a minute", "make setup, or pip install torch", needed=True
        )
    if process.returncode:
        return Finding("torch", _last_line(complaint), "make setup, or pip install torch", needed=True)
    return Finding("torch", output.strip())


def _compilers() -> Iterator[Finding]:
    for tool in ("g++", "make"):
        if shutil.which(tool) is None:
            yield Finding(tool, "not installed", f"{APT} {tool}", needed=tool == "g++")
            continue
        told = subprocess.run([tool, "--version"], capture_output=True, text=True)
        yield Finding(tool, (told.stdout or told.stderr).partition("\n")[0])
    if shutil.which("g++"):
        yield _openmp()


def _openmp() -> Finding:
    with tempfile.TemporaryDirectory(prefix="kevolve-doctor-") as folder:
        source, binary = Path(folder, "openmp.cpp"), Path(folder, "openmp")
        source.write_text(OPENMP)
        built = subprocess.run(
            ["g++", "-fopenmp", str(source), "-o", str(binary)], capture_output=True, text=True, check=False
        )
        if built.returncode or subprocess.run([str(binary)], check=False).returncode:
            reason = _last_line(built.stderr) or "a program built with it does not run"
            return Finding("OpenMP", reason, f"{APT} --reinstall g++ libgomp1", needed=True)
    return Finding("OpenMP", "compiles and runs")


def _processor() -> Finding:
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    state = f"{cores} cores for this process, {memory:.0f} GiB of memory"
    few = "timings need a core to themselves: give this machine two or more" if cores < 2 else ""
    return Finding("machine", f"{platform.machine()}, {state}", few)


def _shared_memory() -> Iterator[Finding]:
    place = Path("/dev/shm")
    free = shutil.disk_usage(place).free / 2**30 if place.is_dir() else 0.0
    if free < SHARED_MEMORY_GIB:
        yield Finding(
            "shared memory", f"{free:.2f} GiB free in {place}", "in a container: docker run --shm-size=1g ..."
        )


def _sandbox(config: Config) -> Finding:
    from kevolve.judge.sandbox.tiers import find_tier

    asked = config.judge.sandbox
    try:
        tier = find_tier(asked)
    except UsageError as error:
        return Finding("sandbox", str(error).replace("\n", " "), "judge.sandbox=auto", needed=True)
    missing = "; ".join(f"no {name}: {reason}" for name, reason in tier.why_not.items())
    mend = "" if not missing else f"{missing}. Programs run less confined; see SECURITY.md"
    return Finding("sandbox", tier.describe(), mend)


def _devices(config: Config) -> Iterator[Finding]:
    from kevolve.devices.registry import find_devices

    try:
        for device in find_devices(config.device.name):
            yield Finding("device", f"{device.name}: {device.key}, languages {', '.join(device.languages)}")
    except UsageError as error:
        first, _, rest = str(error).partition("\n")
        yield Finding("device", first, rest.strip() or "device=auto", needed=True)


def _folders(config: Config) -> Iterator[Finding]:
    yield _folder("runs", Path(config.runs_dir), "runs_dir=FOLDER")
    yield _folder("scratch", Path(tempfile.gettempdir()), "TMPDIR=FOLDER")
    try:
        yield _folder("cache", cache_dir(), "KEVOLVE_CACHE=FOLDER")
    except OSError as error:
        yield Finding("cache", str(error), "choose another: KEVOLVE_CACHE=FOLDER", needed=True)


def _folder(what: str, folder: Path, mend: str) -> Finding:
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Finding(what, f"{folder} cannot be written", f"choose another: {mend}", needed=True)
    return Finding(what, f"{folder} can be written, {shutil.disk_usage(existing).free / 2**30:.0f} GiB free")


def _mlflow(config: Config) -> Finding:
    from kevolve.tracking.address import check_address, redact

    address = redact(config.tracking.uri)
    if not config.tracking.enabled:
        return Finding("mlflow", "off (tracking=none)")
    try:
        check_address(config.tracking.uri, 2)
    except Exception as error:  # any: each kind of store fails in its own way
        reason = (str(error).replace(config.tracking.uri, address) or type(error).__name__).partition("\n")[0]
        return Finding("mlflow", f"{address}: {reason}", "runs go on without it: tracking.uri=... or tracking=none")
    return Finding("mlflow", f"{address} can be written")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


if __name__ == "__main__":
    sys.exit(main())
