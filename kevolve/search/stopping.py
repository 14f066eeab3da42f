"""Stopping: when a run asks for nothing more, and how it hears of Ctrl-C.

The first Ctrl-C (or a SIGTERM) ends the asking, and what is under way is finished; the second cancels that as well.
Everything is saved either way.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from kevolve.search.rules import Reason, run_rules, search_rules

if TYPE_CHECKING:
    from kevolve.config import Budget
    from kevolve.search.lineage import Lineage, SearchState

CONFIRMATION_SHARE = 0.3  # of the minutes, at most, that are kept back for confirming
CONFIRMATION_FACTOR = 6.0  # a confirmation takes more pairs and more workloads than a judgement


class Stopping:
    """Decides whether to go on, by the rules that the budget makes (rules.py) and the clock.

    Minutes go on over all sessions: `seconds` are what earlier ones took, `began` is when this one did, by
    `time.monotonic`, which nobody can set: a wall clock that is put right must neither end a run nor keep it going.
    """

    def __init__(self, budget: Budget, lineage: Lineage, began: float, seconds: float) -> None:
        self._budget = budget
        self._lineage = lineage
        self._search_rules = search_rules(budget)
        self._run_rules = run_rules(budget)
        self._deadline = began - seconds + budget.minutes * 60
        self.reason: Reason | None = None
        self.is_cancelled = False
        self.cancel: Callable[[], object] | None = None

    def is_over(self) -> bool:
        """Is there nothing more to ask for, in any search? Sets `reason` when that becomes so."""
        if self.reason is None:
            self.reason = self._end()
        return self.reason is not None

    def wants_more(self, state: SearchState, asking: int) -> bool:
        """May this search ask, given what it has, what is under way and how many lanes are `asking` for it?"""
        under_way = asking + sum(step.judgement is None for step in state.open.values())
        return not any(rule.is_met(state, under_way) for rule in self._search_rules)

    def end_of(self, state: SearchState) -> Reason | None:
        """Why the search has had enough, if it has."""
        return next((rule.reason for rule in self._search_rules if rule.is_met(state)), None)

    @property
    def seconds_left(self) -> float:
        """Until the minutes are up; negative after."""
        return self._deadline - time.monotonic()

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Inside, SIGINT and SIGTERM stop the run; from the second on they call `cancel`, too, where it is set."""
        loop = asyncio.get_running_loop()
        caught: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)
        try:
            for number in caught:
                loop.add_signal_handler(number, self.interrupt)
        except (RuntimeError, ValueError):
            caught = ()  # not the main thread: signals are its business
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    def interrupt(self) -> None:
        """What a Ctrl-C does."""
        if self.reason == "interrupted" and self.cancel is not None:
            self.is_cancelled = True
            self.cancel()
        self.reason = "interrupted"

    def _end(self) -> Reason | None:
        for rule in self._run_rules:
            if rule.is_met(self._lineage):
                return rule.reason
        states = list(self._lineage.searches.values())
        ends = [self.end_of(state) for state in states]
        if None not in ends:
            return "evaluations" if "evaluations" in ends else ends[0]
        return "minutes" if self.seconds_left <= self._reserve(len(states)) else None

    def _reserve(self, searches: int) -> float:
        """Seconds to keep for confirming the champions, from what a judgement of a right program has taken so far."""
        judgement_seconds = self._lineage.scored_seconds / max(1, self._lineage.scored)
        wanted = searches * self._budget.confirmations * CONFIRMATION_FACTOR * judgement_seconds
        return min(wanted, CONFIRMATION_SHARE * self._budget.minutes * 60)
