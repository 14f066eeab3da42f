"""The device contract: where programs run, and how fast it can possibly go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
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
    """A kind of machine that runs programs. `key` names the chip: champions are compared per key."""

    name: str
    key: str
    target: Target
    languages: tuple[str, ...]
    cache_bytes: int  # of the largest cache: what must be streamed through to empty it
    exclusive: bool  # True where building and proposing would disturb timing (the CPU)

    def present(self) -> bool:
        """Can this machine run programs for the device?"""
        ...

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
