"""The policy contract: how one island chooses the next parents of one search.

A policy is one file here and one line in registry.py. It only asks and is told; it holds ids, fitness and the
names of edits, never sources, and its whole state follows from what it was told, in order, and how often it asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from kevolve.propose.proposer import Request

Remedy = Literal["widen", "import", "restart"]

WIDE_DRAFTS = 0.5  # share of requests that are drafts once an island was told to widen, until it finds better


@dataclass(frozen=True)
class Search:
    """One search: an operator on a device (the device's key)."""

    operator: str
    device: str

    def __str__(self) -> str:
        return f"{self.operator} on {self.device}"


@dataclass(frozen=True)
class Told:
    """What became of a program. `fitness` is (speedup, worst speedup), or None for one that was rejected.

    `niche` says how it goes about its work (`search/behaviour.py`); equal for programs that do alike.
    """

    program: str
    fitness: tuple[float, float] | None
    parents: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()
    niche: str = ""


@dataclass(frozen=True)
class Member:
    """A program that an island may choose as a parent."""

    program: str
    fitness: tuple[float, float]
    niche: str = ""


@dataclass(frozen=True)
class Arrival:
    """A migrant, with the program whose place it takes (None where there is room)."""

    member: Member
    replaced: str | None


@dataclass(frozen=True)
class Stirred:
    """The island has found nothing better for long. What to do about it, with the guest that comes with `import`."""

    remedy: Remedy
    guest: Arrival | None = None


Heard = Told | Arrival | Stirred


class Policy(Protocol):
    """One island's share of one search. Subclass it to inherit what a policy without a population need not do."""

    asks: int  # how often it has asked: all the random state there is, so that it fits an event and replays exactly

    def ask(self) -> Request:
        """What to propose next."""
        ...

    def tell(self, told: Told) -> None:
        """Learn of a verdict. Draws no random number."""
        ...

    def members(self) -> list[Member]:
        """The population, for migration."""
        return []

    def welcome(self, arrival: Arrival) -> None:
        """Take a migrant in. Draws no random number."""
        return

    def stir(self, stirred: Stirred) -> None:
        """Do something about stagnation. Draws no random number."""
        return
