"""This machine's judge in the test's own process, as the lease of a run."""

from __future__ import annotations

import asyncio
from typing import Any

from kevolve.judge.judge import Judge
from kevolve.judge.lease import Survey
from kevolve.languages.language import Built
from kevolve.program import Program
from kevolve.verdict import Fault, Judgement, Key, Rejected


class Here:
    """A judge as a lease. Baselines are not timed: as if `eager` took a microsecond everywhere."""

    exclusive = True

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.device = judge.device.key
        self.languages = judge.device.languages
        self.environment: dict[str, Any] = {"sandbox": judge.tier.name}

    def key(self, program: Program) -> Key:
        return self.judge.key(program)

    async def survey(self, operator: str, seed: int) -> Survey:
        workloads = self.judge.operator(operator).workloads
        return Survey(operator, self.device, {workload.name: {"eager": 1.0} for workload in workloads})

    async def prepare(self, program: Program) -> Built | Rejected | Fault:
        return await asyncio.to_thread(self.judge.prepare, program)

    async def measure(
        self, program: Program, built: Built, survey: Survey, seed: int, *, confirm: bool = False, to_beat: float = 0.0
    ) -> Judgement:
        return self.judge.measure(program, built, survey, seed, to_beat=to_beat)

    async def close(self) -> None:
        """The judge is the test's."""
