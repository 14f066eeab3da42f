"""Rules: when a search, or the whole run, has had enough. Each is one small class, and any may end it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from kevolve.config import Budget
    from kevolve.search.lineage import Lineage, SearchState

Limit = Literal["evaluations", "minutes", "target", "roofline", "plateau", "tokens", "cost_usd"]  # keys of the budget
Reason = Limit | Literal["exhausted", "spent", "interrupted", "faults"]

FAULTS_IN_A_ROW = 5
FRUITLESS_IN_A_ROW = 100  # requests that brought nothing new: the proposer has run out of programs


class SearchRule(Protocol):
    """Ends one search. `under_way` counts programs that were asked for and have no verdict yet."""

    @property
    def reason(self) -> Reason: ...

    def is_met(self, state: SearchState, under_way: int = 0) -> bool: ...


class RunRule(Protocol):
    """Ends the whole run."""

    @property
    def reason(self) -> Reason: ...

    def is_met(self, lineage: Lineage) -> bool: ...


@dataclass(frozen=True)
class Evaluations:
    """New verdicts on children: starting programs are not counted, reused verdicts and faults cost nothing."""

    most: int
    reason: Reason = "evaluations"

    def is_met(self, state: SearchState, under_way: int = 0) -> bool:
        return state.evaluations + under_way >= self.most


@dataclass(frozen=True)
class Exhausted:
    """The proposer has run out of programs."""

    reason: Reason = "exhausted"

    def is_met(self, state: SearchState, under_way: int = 0) -> bool:
        return state.fruitless >= FRUITLESS_IN_A_ROW


@dataclass(frozen=True)
class Target:
    """Some program has this speedup."""

    speedup: float
    reason: Reason = "target"

    def is_met(self, state: SearchState, under_way: int = 0) -> bool:
        return state.best_speedup >= self.speedup


@dataclass(frozen=True)
class Roofline:
    """The best program reaches this share of the roofline: there is little left to find."""

    share: float
    reason: Reason = "roofline"

    def is_met(self, state: SearchState, under_way: int = 0) -> bool:
        return state.best_roofline >= self.share


@dataclass(frozen=True)
class Plateau:
    """So many new verdicts since the last that was better than all before."""

    verdicts: int
    reason: Reason = "plateau"

    def is_met(self, state: SearchState, under_way: int = 0) -> bool:
        return state.since_best >= self.verdicts


@dataclass(frozen=True)
class Tokens:
    """What language models took, all searches together."""

    most: int
    reason: Reason = "tokens"

    def is_met(self, lineage: Lineage) -> bool:
        return lineage.tokens >= self.most


@dataclass(frozen=True)
class Money:
    """What proposing cost, all searches together."""

    most_usd: float
    reason: Reason = "cost_usd"

    def is_met(self, lineage: Lineage) -> bool:
        return lineage.cost_usd >= self.most_usd


@dataclass(frozen=True)
class Faults:
    """The machine, or the proposer, has failed so often in a row that going on would only fail again."""

    most: int = FAULTS_IN_A_ROW
    reason: Reason = "faults"

    def is_met(self, lineage: Lineage) -> bool:
        return lineage.faults >= self.most


def search_rules(budget: Budget) -> list[SearchRule]:
    """What ends a search. The first that is met is named as the reason."""
    rules: list[SearchRule] = [Evaluations(budget.evaluations), Exhausted()]
    if budget.target is not None:
        rules.append(Target(budget.target))
    if budget.roofline is not None:
        rules.append(Roofline(budget.roofline))
    if budget.plateau is not None:
        rules.append(Plateau(budget.plateau))
    return rules


def run_rules(budget: Budget) -> list[RunRule]:
    """What ends the run whatever its searches have come to, minutes apart."""
    rules: list[RunRule] = [Faults()]
    if budget.tokens is not None:
        rules.append(Tokens(budget.tokens))
    if budget.cost_usd is not None:
        rules.append(Money(budget.cost_usd))
    return rules
