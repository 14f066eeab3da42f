"""The device contract: where programs run, and how fast it can possibly go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kevolve.config import JudgeConfig
    from kevolve.languages.language import Target


@dataclass(frozen=True)
class Peaks:
    """Measured once per machine. Rates are bytes (or operations) per second, all cores together.

    `copy` is reads plus writes of a memory-sized copy, `read` of a memory-sized sum, and `cache_read` of a sum
    that fits the caches: the fastest rate at which anything can be read, which bounds what is possible.
    """

    copy_bytes_per_s: float
    read_bytes_per_s: float
    cache_read_bytes_per_s: float
    flops_per_s: float


class Device(Protocol):
    """A kind of machine that runs programs: a subclass, so that what it leaves out is as here.

    `knowledge` is a folder of documents about the chip for proposers to read. `stages_anywhere` are the stages of
    judging that can be had for it on machines without one; it is then given to the judge by name only.
    """

    name: str
    languages: tuple[str, ...]
    exclusive: bool  # True where building and proposing would disturb timing (the CPU)
    knowledge: Path | None = None
    stages_anywhere: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Names the chip: champions are compared per key."""
        ...

    @property
    def target(self) -> Target:
        """What to build for."""
        ...

    @property
    def cache_bytes(self) -> int:
        """Of the largest cache: what must be streamed through to empty it."""
        ...

    def present(self) -> bool:
        """Can this machine run programs for the device?"""
        ...

    def lacks(self) -> str:
        """Why it cannot be used here, as the end of a sentence, and what to type; empty if it can."""
        return "" if self.present() else "this machine has none. Type device=auto to use what is here"

    def judge(self, settings: JudgeConfig) -> Any:
        """A judge of its own (`kevolve.judge.judge.Judge` has the methods), for a chip with memory of its own.

        None: programs run on this machine's memory, and kevolve's judge of the CPU does.
        """
        return None

    def ray_options(self) -> dict[str, Any]:
        """What a lease asks Ray for."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Environment variables that timing pins, for program and baseline alike; recorded with every verdict."""
        ...

    def peaks(self, *, again: bool = False) -> Peaks:
        """Measured once per machine, cached with the machine's fingerprint.

        `again` measures once more and keeps the greater of each rate: a machine that was busy looks slower than it is.
        """
        ...

    def known_peaks(self) -> Peaks | None:
        """The same if they have been measured before; never measures."""
        ...

    def conditions(self) -> dict[str, float]:
        """What may disturb a timing just now (load, clock, throttling so far): recorded before and after."""
        ...

    def healthy(self) -> bool:
        """Probed after every candidate."""
        ...
