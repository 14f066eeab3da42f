"""The language contract: how a program's source becomes something that a device can run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kevolve.operators.operator import Operator
    from kevolve.program import Program


@dataclass(frozen=True)
class Target:
    """What to build for: an instruction set or GPU architecture, and the toolchain that does it."""

    architecture: str
    toolchain: str


@dataclass(frozen=True)
class Built:
    """A built program, carried by value: one binary per variant (`float32-int64`, ...).

    `artefact` is the hash of the binaries: programs with equal artefacts are the same program.
    `facts` is what the build learned (compiler warnings, registers), for improvers to read.
    """

    artefact: str
    binaries: Mapping[str, bytes]
    entry: str
    facts: Mapping[str, str]


@dataclass(frozen=True)
class BuildError:
    """The toolchain refused the program: its proposer should hear why."""

    reason: str
    detail: str = ""


class Language(Protocol):
    """One folder of `kevolve/languages/`. `load_path` is a stand-alone file that runs beside the program.

    The genetic proposer's edits for the language live in its `edits.py`.
    """

    name: str
    suffix: str
    load_path: Path

    def build(self, program: Program, operator: Operator, target: Target, scratch: Path) -> Built | BuildError:
        """Build every variant that the operator's workloads need. Needs no device."""
        ...
