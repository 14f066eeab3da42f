"""Credit: what did children that came about by an edit gain over the better of their parents?

A proposer prefers edits that have paid (`Request.credit`). The ledger follows from what a policy was told, in order,
so it is there again after a resume.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kevolve.propose.proposer import Credit
from kevolve.search.policies.policy import Told

REJECTED_GAIN = -1.0  # log2: a child that is wrong counts as one that takes twice its parent's time


class Ledger:
    """Tries and gains by the names of edits."""

    def __init__(self) -> None:
        self._speedups: dict[str, float] = {}
        self._totals: dict[str, Credit] = {}  # gain: in total, not on average

    def note(self, program: str, speedup: float) -> None:
        """A program that may become a parent."""
        self._speedups[program] = speedup

    def learn(self, told: Told) -> None:
        """Credit the child's edits with its gain over the best of its parents."""
        speedups = [self._speedups[parent] for parent in told.parents if parent in self._speedups]
        if speedups:
            gain = REJECTED_GAIN if told.fitness is None else math.log2(told.fitness[0] / max(speedups))
            for edit in dict.fromkeys(told.edits):
                total = self._totals.get(edit, Credit(0, 0.0))
                self._totals[edit] = Credit(total.tries + 1, total.gain + gain)
        if told.fitness is not None:
            self.note(told.program, told.fitness[0])

    def credit(self) -> Mapping[str, Credit]:
        """Tries and mean gain (log2) of every edit that led to a verdict."""
        return {
            edit: Credit(total.tries, round(total.gain / total.tries, 6))
            for edit, total in sorted(self._totals.items())
        }
