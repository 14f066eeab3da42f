"""The survey: which baselines answer rightly on which workload, and which of them is the fastest there?

A library that is wrong on a workload is dropped there and named; it may still be the one to beat elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from kevolve.judge.baselines import BaselineFault, BaselineProcess
from kevolve.judge.call import Arenas, place, place_fresh
from kevolve.judge.draws import Draw, Draws
from kevolve.judge.flush import Flush
from kevolve.judge.lease import Survey
from kevolve.judge.streams import Streams
from kevolve.operators.operator import Operator, Workload

_TIMED_CALLS = 5
_RIVAL = 2.0  # a baseline that took this many times as long as the best one in its first calls is not timed further


@dataclass(frozen=True)
class Surveyor:
    """An operator's baselines on one device, tried one workload at a time."""

    operator: Operator
    baselines: BaselineProcess
    arenas: Arenas
    draws: Draws
    flush: Flush
    streams: Streams

    def on(self, workload: Workload, names: Iterable[str]) -> tuple[dict[str, float], dict[str, str]]:
        """Times in us of the baselines that are right on `workload`, and what is wrong with the others."""
        draw = self.draws.of(workload)
        first: dict[str, float] = {}
        wrong: dict[str, str] = {}
        for name in names:
            reason = self._try(draw, name)
            if reason:
                wrong[name] = reason
                continue
            first[name] = self._time(draw, name)
            if first[name] <= _RIVAL * min(first.values()):  # its first timed call may have been unlucky
                first[name] = min(first[name], self._time(draw, name))
        limit = _RIVAL * min(first.values(), default=0.0)
        rivals = [name for name, time_us in first.items() if time_us <= limit]
        # In turns, so that drift hits all alike.
        further = [{name: self._time(draw, name) for name in rivals} for _ in range(_TIMED_CALLS)]
        return {**first, **{name: median(times[name] for times in further) for name in rivals}}, wrong

    def _try(self, draw: Draw, name: str) -> str:
        """Why the baseline cannot serve on this workload, or nothing."""
        self.arenas.reset()
        call = place(self.operator, draw.workload, draw.inputs, self.arenas)
        other = place_fresh(self.operator, draw.workload, draw.inputs, self.streams.next_call(), self.arenas)
        failed = self.baselines.warm(self.operator, name, [call, other])
        if failed:
            return f"fails: {failed}"
        malformed = self.baselines.answers(call, self.arenas.outputs.fd, self.arenas.outputs.size)
        if malformed:
            return malformed
        mismatch = draw.check(call.answer())
        return f"wrong: {mismatch.reason}" if mismatch else ""

    def _time(self, draw: Draw, name: str) -> float:
        """Time of a call with fresh content, in us."""
        self.arenas.reset()
        call = place_fresh(self.operator, draw.workload, draw.inputs, self.streams.next_call(), self.arenas)
        self.flush.before(draw.workload)
        window, _ = self.baselines.run(self.operator, name, [call], self.arenas)
        return window * 1e6


def take_survey(surveyor: Surveyor, device: str, baselines: Sequence[str]) -> Survey:
    """Every one of `baselines` on every search and holdout workload. `device` is the device's key.

    Raises BaselineFault when none is right on one of them.
    """
    operator = surveyor.operator
    times: dict[str, dict[str, float]] = {}
    dropped: dict[str, dict[str, str]] = {}
    for workload in operator.workloads:
        if workload.role == "adversarial":
            continue
        right, wrong = surveyor.on(workload, baselines)
        if not right:
            raise BaselineFault(f"no baseline of {operator.name} is right on {workload.name}: {wrong}")
        times[workload.name] = right
        if wrong:
            dropped[workload.name] = wrong
    return Survey(operator.name, device, times, dropped)
