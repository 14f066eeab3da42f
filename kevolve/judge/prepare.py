"""Screen and build: a program's way up to the device. Needs no device, so it runs as an ordinary CPU task."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kevolve.config import JudgeConfig
from kevolve.judge.sandbox.command import run_confined
from kevolve.judge.sandbox.exits import out_of_memory_kills, printable
from kevolve.judge.sandbox.tiers import Tier
from kevolve.judge.screen import screen
from kevolve.languages.language import BuildError, Built, Target
from kevolve.languages.registry import builder
from kevolve.operators.registry import load_operator
from kevolve.program import Program
from kevolve.verdict import Fault, Rejected

_COMPILER_MEMORY_BYTES = 4 << 30
_NEARLY_FULL_BYTES = 64 << 20  # the compiler has removed its files by the time that one looks


@dataclass(frozen=True)
class Scratch:
    """A confined toolchain run in a folder of its own (`kevolve.languages.language.Confined`)."""

    tier: Tier
    scratch: Path
    seconds: float

    def run(self, command: Sequence[str], read: Sequence[str] = ()) -> tuple[int, str] | None:
        """(exit status, output), or None when the time was up."""
        finished = run_confined(
            self.tier, command, self.scratch, read=read, seconds=self.seconds, memory_bytes=_COMPILER_MEMORY_BYTES
        )
        return None if finished.timed_out else (finished.status, finished.output)


def prepare(
    program: Program, target: Target, tier: Tier, settings: JudgeConfig, device: str = "cpu"
) -> Built | Rejected | Fault:
    """The built program, or why it goes no further. `device` is the device's name: workloads may be its own."""
    rejected = screen(program, device)
    if rejected is not None:
        return rejected
    operator, kills = load_operator(program.operator, device), out_of_memory_kills()
    try:
        with tempfile.TemporaryDirectory(prefix="kevolve-build-") as scratch:
            confined = Scratch(tier, Path(scratch).resolve(), settings.build_seconds)
            built: Built | BuildError = builder(program.language, target)(program, operator, target, confined)
            if isinstance(built, BuildError) and _is_full(confined.scratch, built):
                return Fault("toolchain", f"no space left in {tempfile.gettempdir()} to build in: TMPDIR moves it")
            if isinstance(built, BuildError) and "Killed" in built.detail and out_of_memory_kills() > kills:
                return Fault("toolchain", "the machine ran out of memory and ended the compiler")
    except OSError as error:
        return Fault("toolchain", f"the build could not run: {error}")
    if isinstance(built, BuildError):
        return Rejected("build", printable(built.reason), printable(built.detail, 4000))
    # Not refused by the build itself: the self-test's canaries do such things.
    if isinstance(built, Built) and (reason := built.facts.get("refused", "")):
        return Rejected("build", reason)
    return built


def _is_full(scratch: Path, error: BuildError) -> bool:
    """Was it the disk that the compiler complained of? Its word is not enough: a program can have it say anything."""
    return "No space left on device" in error.detail and shutil.disk_usage(scratch).free < _NEARLY_FULL_BYTES
