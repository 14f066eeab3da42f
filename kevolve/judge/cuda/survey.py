"""The survey on a GPU: which baselines answer rightly on which workload, and which of them is the fastest there?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import torch

from kevolve.judge.baselines import BaselineFault
from kevolve.judge.cuda.baselines import BaselineProcess
from kevolve.judge.cuda.content import Block, drawn
from kevolve.judge.cuda.draws import Draws
from kevolve.judge.cuda.memory import Arena
from kevolve.judge.cuda.timing import calls_of_block
from kevolve.judge.draws import Draw
from kevolve.judge.lease import Survey
from kevolve.judge.streams import Streams
from kevolve.operators.operator import Operator, Workload

_TURNS = 3
_RIVAL = 1.5  # a baseline that takes this many times as long as the best one in its first block is not timed further


@dataclass(frozen=True)
class Surveyor:
    """An operator's baselines on one device, tried one workload at a time."""

    operator: Operator
    baselines: BaselineProcess
    arenas: tuple[Arena, Arena]
    draws: Draws
    streams: Streams
    cache_bytes: int

    def take(self, device: str, names: Sequence[str]) -> Survey:
        """Every one of `names` on every search and holdout workload. `device` is the device's key.

        Raises BaselineFault when none is right on one of them.
        """
        times: dict[str, dict[str, float]] = {}
        dropped: dict[str, dict[str, str]] = {}
        for workload in self.operator.workloads:
            if workload.role == "adversarial":
                continue
            wrong = {name: self._wrong(self.draws.of(workload), name) for name in names}
            right = [name for name in names if not wrong[name]]
            if not right:
                raise BaselineFault(f"no baseline of {self.operator.name} is right on {workload.name}: {wrong}")
            times[workload.name] = self._times(workload, right)
            if len(right) < len(names):
                dropped[workload.name] = {name: reason for name, reason in wrong.items() if reason}
        return Survey(self.operator.name, device, times, dropped)

    def _wrong(self, draw: Draw, name: str) -> str:
        """Why the baseline cannot serve on this workload, or nothing."""
        block = Block(self.operator, draw.workload, self.arenas, self.streams)
        call = block.place(draw.inputs)
        other = block.draw(draw.workload)
        torch.cuda.synchronize()
        failed = self.baselines.warm(self.operator, name, [call, other])
        if failed:
            return f"fails: {failed}"
        malformed = self.baselines.answers(call)
        if malformed:
            return malformed
        mismatch = draw.check(call.answer())
        return f"wrong: {mismatch.reason}" if mismatch else ""

    def _times(self, workload: Workload, names: Sequence[str]) -> dict[str, float]:
        """Times in us: of all in a short block, of those that come near the best in several long ones, in turns."""
        first = {name: self._time(workload, name, 2) for name in names}
        limit = _RIVAL * min(first.values())
        rivals = [name for name, time_s in first.items() if time_s <= limit]
        sample = drawn(self.operator, [workload], self.arenas, self.streams)
        calls = calls_of_block(sample, min(first.values()), self.cache_bytes)
        turns = [{name: self._time(workload, name, calls) for name in rivals} for _ in range(_TURNS)]
        closer = {name: median(turn[name] for turn in turns) for name in rivals}
        return {name: time_s * 1e6 for name, time_s in {**first, **closer}.items()}

    def _time(self, workload: Workload, name: str, calls: int) -> float:
        """Seconds of a call in a block of fresh ones."""
        block = drawn(self.operator, [workload] * calls, self.arenas, self.streams)
        self.baselines.prepare(self.operator, name, block.calls)
        torch.cuda.synchronize()
        return self.baselines.run()[1] / calls
