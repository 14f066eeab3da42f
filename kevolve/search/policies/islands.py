"""Islands: each keeps a small population, chooses parents by tournament and survivors by NSGA-II.

The two objectives are speedup and worst speedup, so that a program which is best on the worst workload survives
beside the one with the best mean. Only Scored programs are ever members. An island also credits edits: what did
children that came about by an edit gain over the better of their parents?
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

from deap import base, tools

from kevolve.propose.proposer import Credit, Kind, Request
from kevolve.search.policies.individual import Individual, drawing_from
from kevolve.search.policies.policy import Arrival, Member, Told

if TYPE_CHECKING:
    from kevolve.config import PolicyConfig

REJECTED_GAIN = -1.0  # log2: a child that is wrong counts as one that takes twice its parent's time


class IslandPolicy:
    """One island's share of one search."""

    def __init__(self, config: PolicyConfig, identity: str) -> None:
        self.asks = 0
        self._config = config
        self._identity = identity
        self._population: list[Individual] = []
        self._speedups: dict[str, float] = {}
        self._credit: dict[str, Credit] = {}  # gain: in total, not on average
        self._toolbox = base.Toolbox()
        self._toolbox.register("parents", tools.selTournament, tournsize=config.tournament)
        self._toolbox.register("survivors", tools.selNSGA2, k=config.population)

    def ask(self) -> Request:
        # Seeding afresh at every ask makes the count of asks the whole random state: it fits into an event.
        generator = random.Random(f"{self._identity}/{self.asks}")
        self.asks += 1
        kind = self._kind(generator.random())
        with drawing_from(generator):
            chosen = [] if kind == "draft" else self._toolbox.parents(self._population, k=1)
            if kind == "crossover":
                others = [one for one in self._population if one != chosen[0]]
                chosen += self._toolbox.parents(others, k=1)
        parents = tuple(individual.program for individual in chosen)
        return Request(kind, parents, seed=generator.getrandbits(48), credit=self.credit())

    def tell(self, told: Told) -> None:
        self._learn(told)
        if told.fitness is not None:
            self._speedups[told.program] = told.fitness[0]
            self._admit(Individual.of(Member(told.program, told.fitness)))

    def members(self) -> list[Member]:
        return [individual.member for individual in self._population]

    def welcome(self, arrival: Arrival) -> None:
        self._speedups[arrival.member.program] = arrival.member.fitness[0]
        self._population = [one for one in self._population if one.program != arrival.replaced]
        self._admit(Individual.of(arrival.member))

    def credit(self) -> Mapping[str, Credit]:
        """Tries and mean gain of every edit that led to a verdict here."""
        return {
            edit: Credit(total.tries, round(total.gain / total.tries, 6))
            for edit, total in sorted(self._credit.items())
        }

    def _kind(self, draw: float) -> Kind:
        """Draft, crossover or improve, by their rates, as far as the population allows."""
        if not self._population or draw < self._config.draft_rate:
            return "draft"
        if len(self._population) > 1 and draw < self._config.draft_rate + self._config.crossover_rate:
            return "crossover"
        return "improve"

    def _admit(self, newcomer: Individual) -> None:
        others = [one for one in self._population if one != newcomer]
        self._population = [*others, newcomer]
        if len(self._population) > self._config.population:
            self._population = self._toolbox.survivors(self._population)

    def _learn(self, told: Told) -> None:
        """Credit the child's edits with its gain over the best of its parents."""
        speedups = [self._speedups[parent] for parent in told.parents if parent in self._speedups]
        if not speedups:
            return
        gain = REJECTED_GAIN if told.fitness is None else math.log2(told.fitness[0] / max(speedups))
        for edit in dict.fromkeys(told.edits):
            total = self._credit.get(edit, Credit(0, 0.0))
            self._credit[edit] = Credit(total.tries + 1, total.gain + gain)
