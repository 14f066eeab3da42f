"""The survey: which baselines answer rightly on which workload, and which of them is the fastest there?

A library that is wrong on a workload is dropped there and named; it may still be the one to beat elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

import torch

from kevolve.judge.baselines import BaselineFault, BaselineProcess
from kevolve.judge.call import Arenas, place, place_fresh
from kevolve.judge.lease import Survey
from kevolve.operators.operator import Inputs, Operator, Outputs, Workload

_TIMED_CALLS = 5
_HOPELESS = 10.0  # a baseline this many times slower than the best so far is not timed to the end


@dataclass(frozen=True)
class Surveyor:
    """An operator's baselines on one device, tried one workload at a time."""

    operator: Operator
    baselines: BaselineProcess
    arenas: Arenas
    rng: torch.Generator

    def on(self, workload: Workload, names: Iterable[str]) -> tuple[dict[str, float], dict[str, str]]:
        """Times in us of the baselines that are right on `workload`, and what is wrong with the others."""
        drawn = self.operator.make_inputs(workload, self.rng)
        expected = self.operator.oracle(drawn)
        times: dict[str, float] = {}
        wrong: dict[str, str] = {}
        for name in names:
            reason = self._try(workload, name, drawn, expected)
            if reason:
                wrong[name] = reason
            else:
                times[name] = self._time(workload, name, drawn, min(times.values(), default=math.inf))
        return times, wrong

    def _try(self, workload: Workload, name: str, drawn: Inputs, expected: Outputs) -> str:
        """Why the baseline cannot serve on this workload, or nothing."""
        self.arenas.reset()
        call = place(self.operator, workload, drawn, self.arenas)
        other = place_fresh(self.operator, workload, drawn, self.rng, self.arenas)
        failed = self.baselines.warm(self.operator, name, [call, other])
        if failed:
            return f"fails: {failed}"
        malformed = self.baselines.answers(call, self.arenas.outputs.fd, self.arenas.outputs.size)
        if malformed:
            return malformed
        mismatch = self.operator.check(workload, call.answer(), expected, drawn)
        return f"wrong: {mismatch.reason}" if mismatch else ""

    def _time(self, workload: Workload, name: str, drawn: Inputs, best_us: float) -> float:
        """Median time of a call in us."""
        windows: list[float] = []
        for _ in range(_TIMED_CALLS):
            self.arenas.reset()
            call = place_fresh(self.operator, workload, drawn, self.rng, self.arenas)
            window, _ = self.baselines.run(self.operator, name, [call], self.arenas)
            windows.append(window * 1e6)
            if len(windows) >= 2 and min(windows) > _HOPELESS * best_us:
                break
        return median(windows)


def take_survey(surveyor: Surveyor, device: str, kind: str) -> Survey:
    """Every baseline on every search and holdout workload of a device (`device` is its key, `kind` its name).

    Raises BaselineFault when none is right on one of them.
    """
    operator = surveyor.operator
    times: dict[str, dict[str, float]] = {}
    dropped: dict[str, dict[str, str]] = {}
    for workload in operator.workloads:
        if workload.role == "adversarial":
            continue
        right, wrong = surveyor.on(workload, operator.baselines(kind))
        if not right:
            raise BaselineFault(f"no baseline of {operator.name} is right on {workload.name}: {wrong}")
        times[workload.name] = right
        if wrong:
            dropped[workload.name] = wrong
    return Survey(operator.name, device, times, dropped)
