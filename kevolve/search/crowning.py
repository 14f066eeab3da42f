"""Crowning: every search's champion is found by measuring the best few once more, while there is time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kevolve.search.confirmation import crown
from kevolve.search.judging import Ready, build, measure, seed_of
from kevolve.search.lineage import Lineage
from kevolve.search.policies.policy import Search
from kevolve.verdict import Fault, Judgement, Rejected

if TYPE_CHECKING:
    from kevolve.config import Config
    from kevolve.judge.lease import Lease
    from kevolve.search.exchange import Store
    from kevolve.search.steps import Steps
    from kevolve.search.stopping import Stopping


class Crowning:
    """Confirms, and stores what comes of it."""

    def __init__(
        self,
        config: Config,
        lineage: Lineage,
        leases: Mapping[str, Lease],
        stopping: Stopping,
        steps: Steps,
        store: Store,
    ) -> None:
        self.config = config
        self.lineage = lineage
        self.leases = leases
        self.stopping = stopping
        self.steps = steps
        self.store = store
        self.longest_seconds = 0.0  # of a confirmation so far

    async def confirm(self) -> None:
        """Find every search's champion, unless somebody wants to leave or the machine fails."""
        for place, (search, state) in enumerate(self.lineage.searches.items(), start=1):
            if self.stopping.reason in ("interrupted", "faults"):
                return
            yet_to_come = len(self.lineage.searches) - place
            await crown(
                state,
                lambda program, search=search: self.again(search, program),  # type: ignore[misc]
                lambda *found, search=search: self.confirmed(search, *found),
                lambda first=yet_to_come: self.is_late(first) or self.stopping.reason == "interrupted",  # type: ignore[misc]
                self.config.budget.confirmations,
            )
            if state.best(1) and state.champion is None and self.lineage.faults:
                self.stopping.reason = "faults"  # only the machine is why there is no champion: a resume finds it

    def is_late(self, first: int) -> bool:
        """Is there no time for one more confirmation, after `first` others that must not be left out?"""
        return self.stopping.seconds_left <= (first + 1) * self.longest_seconds

    async def again(self, search: Search, id: str) -> Judgement:
        """Judge a program once more, on fresh data and all timed workloads."""
        state, lease = self.lineage.state(search), self.leases[search.device]
        program = self.lineage.program(search.operator, state.programs[id])
        assert state.survey is not None
        started = time.monotonic()
        built = await build(lease, program)
        if isinstance(built, Rejected | Fault):
            return Judgement(lease.key(program), built)
        seed = seed_of(self.config.seed, search.operator, search.device, id, "confirm")
        judgement = await measure(lease, state.survey, Ready(program, built), seed, confirm=True)
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - started)
        return judgement

    def confirmed(self, search: Search, program: str, judgement: Judgement, champion: bool, reason: str) -> None:
        """Store what came of a confirmation."""
        facts = {"program": program, "champion": champion, "reason": reason}
        place = {"operator": search.operator, "device": search.device}
        self.store("confirmed", {**place, **facts, "judgement": self.steps.record(judgement)})
