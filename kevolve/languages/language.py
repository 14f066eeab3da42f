"""The language contract: how a program's source becomes something that a device can run."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:
    from kevolve.operators.operator import Operator
    from kevolve.program import Program


@dataclass(frozen=True)
class Target:
    """What to build for: an instruction set or GPU architecture, and the toolchain that does it.

    `flags` spell the architecture out for the toolchain, so that any machine can build for this one. `builder` is the
    `module:function` of another package that builds for it in place of `Language.build`; empty: the language's own.
    """

    architecture: str
    toolchain: str
    flags: tuple[str, ...] = ()
    builder: str = ""


@dataclass(frozen=True)
class Built:
    """A built program, carried by value: one binary per variant (`float32-int64`, ...).

    `artefact` is the hash of the binaries: programs with equal artefacts are the same program.
    `facts` is what the build learned (compiler warnings, registers), for improvers to read; `suspicions` among them,
    if not empty, makes the judge look closely.
    """

    artefact: str
    binaries: Mapping[str, bytes]
    entry: str
    facts: Mapping[str, str]

    def open(self, variant: str, name: str) -> BinaryIO:
        """A variant as an anonymous file called `name` that nobody can change any more."""
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        file = os.fdopen(descriptor, "w+b", buffering=0)
        file.write(self.binaries[variant])
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        return file


@dataclass(frozen=True)
class BuildError:
    """The toolchain refused the program: its proposer should hear why."""

    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Shape:
    """How a program goes about its work, as far as its text tells: what a language's `shape.py` finds.

    `parallel` says how it is shared out, `passes` counts its innermost loops, `block` is the largest number of elements
    that it holds or steps over at once, rounded down to a power of four.
    """

    parallel: str
    passes: int
    block: int

    @staticmethod
    def rounded(elements: int) -> int:
        """Down to a power of four: blocks of nearly the same size are the same kind of program."""
        return 1 << (max(1, elements).bit_length() - 1) // 2 * 2


class Confined(Protocol):
    """Runs a toolchain on hostile input: it may write `scratch`, read the system, and not take for ever."""

    @property
    def scratch(self) -> Path:
        """The folder, which is the working directory too."""
        ...

    def run(self, command: Sequence[str], read: Sequence[str] = ()) -> tuple[int, str] | None:
        """(exit status, output), or None when the time was up."""
        ...


class Language(Protocol):
    """One folder of `kevolve/languages/`. `load_path` is a stand-alone file that runs beside the program.

    `imports` names the Python packages that programs need: what else a process holds is only of use to an attacker.
    Languages of the CUDA device have `beside`, too: the other files that `load_path` reads there.

    The genetic proposer's edits for the language live in its `edits.py`. Two more are optional: `shape.py` with
    `shape(source)` tells programs of different kinds apart, `canonical.py` with `canonical(source)` finds those that
    differ in nothing that matters. A language of another package (entry point group `kevolve.languages`) may have
    `screen(source, entry)`: what is wrong with a text, in a sentence, or nothing.
    """

    name: str
    suffix: str
    load_path: Path
    imports: tuple[str, ...]

    def build(self, program: Program, operator: Operator, target: Target, confined: Confined) -> Built | BuildError:
        """Build every variant that the operator's workloads need. Needs no device."""
        ...
