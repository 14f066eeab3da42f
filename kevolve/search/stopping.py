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
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from kevolve.config import Budget
    from kevolve.search.lineage import Lineage, SearchState

Reason = Literal["evaluations", "minutes", "exhausted", "interrupted", "faults"]

FAULTS_IN_A_ROW = 5
FRUITLESS_IN_A_ROW = 100  # requests that brought nothing new: the proposer has run out of programs
CONFIRMATION_SHARE = 0.3  # of the minutes, at most, that are kept back for confirming
CONFIRMATION_FACTOR = 6.0  # a confirmation takes more pairs and more workloads than a judgement


class Stopping:
    """Decides whether to go on.

    Evaluations are new verdicts on children: starting programs are not counted, reused verdicts and faults cost
    nothing. Minutes go on over all sessions: `seconds` are what earlier ones took, `began` is when this one did, by
    `time.monotonic`, which nobody can set: a wall clock that is put right must neither end a run nor keep it going.
    """

    def __init__(self, budget: Budget, lineage: Lineage, began: float, seconds: float) -> None:
        self._budget = budget
        self._lineage = lineage
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
        return state.fruitless < FRUITLESS_IN_A_ROW and state.evaluations + under_way < self._budget.evaluations

    def is_finished(self, state: SearchState) -> bool:
        """Has the search had its judgements, or run out of programs?"""
        return state.evaluations >= self._budget.evaluations or state.fruitless >= FRUITLESS_IN_A_ROW

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
        if self._lineage.faults >= FAULTS_IN_A_ROW:
            return "faults"
        states = list(self._lineage.searches.values())
        if all(self.is_finished(state) for state in states):
            spent = any(state.evaluations >= self._budget.evaluations for state in states)
            return "evaluations" if spent else "exhausted"
        return "minutes" if self.seconds_left <= self._reserve(len(states)) else None

    def _reserve(self, searches: int) -> float:
        """Seconds to keep for confirming the champions, from what a judgement of a right program has taken so far."""
        judgement_seconds = self._lineage.scored_seconds / max(1, self._lineage.scored)
        wanted = searches * self._budget.confirmations * CONFIRMATION_FACTOR * judgement_seconds
        return min(wanted, CONFIRMATION_SHARE * self._budget.minutes * 60)
