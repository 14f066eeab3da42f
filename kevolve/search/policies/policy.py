"""The policy contract: how one island chooses the next parents of one search.

A policy is one file here and one line in registry.py. It only asks and is told; it holds ids, fitness and the
names of edits, never sources, and its whole state follows from what it was told, in order, and how often it asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kevolve.propose.proposer import Request


@dataclass(frozen=True)
class Search:
    """One search: an operator on a device (the device's key)."""

    operator: str
    device: str

    def __str__(self) -> str:
        return f"{self.operator} on {self.device}"


@dataclass(frozen=True)
class Told:
    """What became of a program. `fitness` is (speedup, worst speedup), or None for one that was rejected."""

    program: str
    fitness: tuple[float, float] | None
    parents: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Member:
    """A program that an island may choose as a parent."""

    program: str
    fitness: tuple[float, float]


@dataclass(frozen=True)
class Arrival:
    """A migrant, with the program whose place it takes (None where there is room)."""

    member: Member
    replaced: str | None


class Policy(Protocol):
    """One island's share of one search."""

    asks: int  # how often it has asked: all the random state there is, so that it fits an event and replays exactly

    def ask(self) -> Request:
        """What to propose next."""
        ...

    def tell(self, told: Told) -> None:
        """Learn of a verdict. Draws no random number."""
        ...

    def members(self) -> list[Member]:
        """The population, for migration."""
        ...

    def welcome(self, arrival: Arrival) -> None:
        """Take a migrant in. Draws no random number."""
        ...
