"""DEAP's view of a program: an id with a fitness. Ordinary module-level classes, because DEAP's `creator` classes
do not survive the way through Ray; and a way to lend DEAP, which draws from the global generator, one of our own.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from deap import base

from kevolve.search.policies.policy import Member


class SpeedupFitness(base.Fitness):
    """(speedup, worst speedup), both to be maximised; compared in that order."""

    weights = (1.0, 1.0)


@dataclass(eq=False)
class Individual:
    """One program of a population. Equal means the same program: DEAP finds individuals by equality."""

    program: str
    fitness: SpeedupFitness = field(repr=False)
    niche: str = ""

    @classmethod
    def of(cls, member: Member) -> Individual:
        if not all(map(math.isfinite, member.fitness)):
            # DEAP ranks NaN first: one of them would take over the island.
            raise ValueError(f"program {member.program} has fitness {member.fitness}, which is no number")
        return cls(member.program, SpeedupFitness(member.fitness), member.niche)

    @property
    def member(self) -> Member:
        speedup, worst = self.fitness.values
        return Member(self.program, (speedup, worst), self.niche)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Individual) and self.program == other.program

    def __hash__(self) -> int:
        return hash(self.program)


@contextmanager
def drawing_from(generator: random.Random) -> Iterator[None]:
    """Inside, the global `random` continues `generator`; after, both are as if only `generator` had been used."""
    outside = random.getstate()
    random.setstate(generator.getstate())
    try:
        yield
    finally:
        generator.setstate(random.getstate())
        random.setstate(outside)
