"""Islands: each keeps a small population, chooses parents by tournament and survivors by behaviour and NSGA-II.

Only Scored programs are ever members. The best of each niche survive first, so that a kernel of another kind is not
driven out before it has been improved; the other places go by speedup and worst speedup, so that a program which is
best on the worst workload survives beside the one with the best mean.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from deap import base, tools

from kevolve.propose.proposer import Kind, Request
from kevolve.search.policies.credit import Ledger
from kevolve.search.policies.individual import Individual, drawing_from
from kevolve.search.policies.policy import WIDE_DRAFTS, Arrival, Member, Policy, Stirred, Told

if TYPE_CHECKING:
    from kevolve.config import PolicyConfig


class IslandPolicy(Policy):
    """One island's share of one search."""

    def __init__(self, config: PolicyConfig, identity: str) -> None:
        self.asks = 0
        self._config = config
        self._identity = identity
        self._population: list[Individual] = []
        self._best = 0.0
        self._is_wide = False
        self._ledger = Ledger()
        self._toolbox = base.Toolbox()
        self._toolbox.register("parents", tools.selTournament, tournsize=config.tournament)

    def ask(self) -> Request:
        # Seeding afresh at every ask makes the count of asks the whole random state: it fits into an event.
        generator = random.Random(f"{self._identity}/{self.asks}")
        kind = self._kind(generator.random())
        self.asks += 1
        with drawing_from(generator):
            chosen = [] if kind == "draft" else self._toolbox.parents(self._population, k=1)
            if kind == "crossover":
                others = [one for one in self._population if one != chosen[0]]
                chosen += self._toolbox.parents(others, k=1)
        parents = tuple(individual.program for individual in chosen)
        return Request(kind, parents, seed=generator.getrandbits(48), credit=self._ledger.credit())

    def tell(self, told: Told) -> None:
        self._ledger.learn(told)
        if told.fitness is not None:
            self._admit(Individual.of(Member(told.program, told.fitness, told.niche)))

    def members(self) -> list[Member]:
        return [individual.member for individual in self._population]

    def welcome(self, arrival: Arrival) -> None:
        self._ledger.note(arrival.member.program, arrival.member.fitness[0])
        self._population = [one for one in self._population if one.program != arrival.replaced]
        self._admit(Individual.of(arrival.member))

    def stir(self, stirred: Stirred) -> None:
        """Widen: half of what comes is drafts. Import: a guest from another island. Restart: the population goes."""
        self._is_wide = stirred.remedy == "widen"
        if stirred.remedy == "restart":
            self._population, self._best = [], 0.0
        if stirred.guest is not None:
            self.welcome(stirred.guest)

    def _kind(self, draw: float) -> Kind:
        """Draft, crossover or improve, by their rates, as far as the population allows."""
        draft_rate = max(self._config.draft_rate, WIDE_DRAFTS) if self._is_wide else self._config.draft_rate
        if self.asks < self._config.drafts or not self._population or draw < draft_rate:
            return "draft"
        if len(self._population) > 1 and draw < draft_rate + self._config.crossover_rate:
            return "crossover"
        return "improve"

    def _admit(self, newcomer: Individual) -> None:
        if newcomer.fitness.values[0] > self._best:
            self._best, self._is_wide = newcomer.fitness.values[0], False
        others = [one for one in self._population if one != newcomer]
        self._population = survivors([*others, newcomer], self._config)


def survivors(population: list[Individual], config: PolicyConfig) -> list[Individual]:
    """Those that an island keeps: the best of each niche, as far as `elite_share` goes, then the rest by NSGA-II."""
    places = config.population
    if len(population) <= places:
        return population
    best: dict[str, Individual] = {}
    for one in population:
        leader = best.setdefault(one.niche, one)
        if one.fitness > leader.fitness:
            best[one.niche] = one
    ranked = sorted(best.values(), key=lambda one: one.fitness, reverse=True)
    elites = ranked[: int(config.elite_share * places)]
    others = [one for one in population if one not in elites]
    kept = {*elites, *tools.selNSGA2(others, k=places - len(elites))}
    return [one for one in population if one in kept]
