"""Timing on a GPU: how much faster is a program than the fastest baseline, pair by pair?

Program and baseline take turns in random order on the same fresh block of calls. A block is long enough that waking a
process is lost in it and, where a call is small, is many calls whose data exceed the cache several times over: what
counts is time with the inputs in memory, not in the cache. It is the device's time, without what launching takes: the
device waits before a block until its calls are queued (`peer.py`), as with a CUDA graph. Two clocks tell the time:
events on the device, recorded by the process after the wait, and the judge's own window around them, less the wait that
the judge has ordered and an empty window of the same process. The events count, being finer, but only as far as the
window bears them out. Since a wait that did not happen would be time for nothing, the two have to agree on blocks
without one, too. How many pairs a program gets is decided in `race.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

import torch

from kevolve.devices.device import Peaks
from kevolve.intervals import interval_of_median
from kevolve.judge.correctness import Rejection
from kevolve.judge.cuda.baselines import BaselineProcess
from kevolve.judge.cuda.content import Block, drawn
from kevolve.judge.cuda.memory import Arena
from kevolve.judge.cuda.runner import Runner
from kevolve.judge.race import odd_contents
from kevolve.judge.streams import Streams
from kevolve.operators.operator import Operator, Workload
from kevolve.verdict import Measurement, Rejected

_BLOCK_SECONDS = 0.0015
_SHORT_BLOCK_SECONDS = 0.0005  # making content takes most of a look, and events on the device are exact enough
_COLD_BYTES = 3  # times the level-two cache
_MAX_CALLS = 64
_EMPTY_WINDOWS = 9
_COSTED = 4  # calls of a block, of which the least work is found
_ROOM = 0.6  # of the shared memory that a block may take: lengths are drawn
_CHECKED_SHARE = 0.3  # see `Stopwatch.checked`
_PHYSICS_SLACK = 0.05
_CLOCK_SLACK = 0.25
_BLOCKS_WITHOUT_WAIT = 3  # at most, of each trial
_UNSEEN_SECONDS = 0.00025  # that a window may take beside its events and an empty window, by waking up alone


@dataclass
class Trial:
    """One workload's paired times so far, in seconds per call; a block has `calls` calls."""

    workload: Workload
    baseline: str
    calls: int
    program: list[float] = field(default_factory=list)
    against: list[float] = field(default_factory=list)
    agreement: list[float] = field(default_factory=list)  # time by the program's events / by the judge's window
    moved: float = 0.0
    flops: float = 0.0

    @property
    def ratios(self) -> list[float]:
        """Speedup by every two pairs, one in each order: their geometric mean."""
        pairs = [b / p for b, p in zip(self.against, self.program, strict=True)]
        return [math.sqrt(one * other) for one, other in zip(pairs[::2], pairs[1::2], strict=True)]


class Stopwatch:
    """Times one program against baselines. Everything it needs is fixed for the program's judging."""

    def __init__(
        self,
        operator: Operator,
        runner: Runner,
        baselines: BaselineProcess,
        arenas: tuple[Arena, Arena],
        peaks: Peaks,
        peaks_again: Callable[[], Peaks],
        streams: Streams,
        cache_bytes: int,
        thorough: bool,
    ):
        self.operator = operator
        self.runner = runner
        self.baselines = baselines
        self.arenas = arenas
        self.peaks = peaks
        self.peaks_again = peaks_again
        self.streams = streams
        self.cache_bytes = cache_bytes
        self.block_s = _BLOCK_SECONDS if thorough else _SHORT_BLOCK_SECONDS
        self.checked = 1.0 if thorough else _CHECKED_SHARE  # all pairs are; odd contents come between as often
        runner.prepare("no workload", [])
        baselines.prepare(operator, next(iter(operator.baselines("cuda"))), [])
        self.program_overhead, self.baseline_overhead = _empty_window(runner.run), _empty_window(baselines.run)

    def warm(self, workload: Workload, baseline: str) -> None:
        """Let the baseline process compile what it needs for `workload`, for calls of any size."""
        calls = self.fresh(workload, 2).calls
        torch.cuda.synchronize()  # the other process does not wait for content that is still being made
        self.baselines.warm(self.operator, baseline, calls)

    def begin(self, workload: Workload, baseline: str) -> Trial:
        """A trial, with blocks long enough; found with unmeasured calls of each, which also warm both up."""
        first = self.fresh(workload, 2)
        self.runner.prepare(workload.name, first.calls)
        self.baselines.prepare(self.operator, baseline, first.calls)
        torch.cuda.synchronize()
        fastest = min(min(run()[1] for _ in range(2)) for run in (self.runner.run, self.baselines.run)) / 2
        return Trial(workload, baseline, calls_of_block(first, fastest, self.cache_bytes, self.block_s))

    def fresh(self, workload: Workload, calls: int) -> Block:
        """Calls with content that is drawn for them."""
        return drawn(self.operator, [workload] * calls, self.arenas, self.streams)

    def two_pairs(self, trial: Trial) -> None:
        """One in each order, in random order. Raises Rejection if an answer is wrong."""
        program_first = self.streams.decisions.random() < 0.5
        self._pair(trial, program_first)
        self._pair(trial, not program_first)

    def _pair(self, trial: Trial, program_first: bool) -> None:
        block = self.fresh(trial.workload, trial.calls)
        self.runner.prepare(trial.workload.name, block.calls)
        self.baselines.prepare(self.operator, trial.baseline, block.calls)
        torch.cuda.synchronize()
        for turn in (self._program, self._baseline) if program_first else (self._baseline, self._program):
            turn(trial)
        block.reject_if_spilled("timing")
        block.reject_if_unwritten()
        block.reject_if_wrong(self.streams.decisions.choice(block.calls))
        if not trial.moved:
            costs = [self.operator.cost(call.given) for call in block.calls[:_COSTED]]
            trial.moved = sum(cost.bytes for cost in costs) / len(costs)
            trial.flops = sum(cost.flops for cost in costs) / len(costs)

    def odd_block(self, trial: Trial) -> None:
        """A block like those that are timed, but some of its contents are hard to get right. Raises Rejection.

        So that nobody can be careful only where calls come singly, or only for the first calls of a block.
        """
        contents, looked_at = odd_contents(self.operator, trial.workload, trial.calls, self.streams.decisions)
        if not looked_at:
            return
        block = drawn(self.operator, contents, self.arenas, self.streams)
        self.runner.prepare(trial.workload.name, block.calls)
        torch.cuda.synchronize()
        self.runner.run()
        block.reject_if_spilled("timing")
        for number in looked_at:
            block.reject_if_wrong(block.calls[number])

    def measurement(self, trial: Trial) -> Measurement:
        """What the pairs so far say."""
        floor_s = max(trial.moved / self.peaks.copy_bytes_per_s, trial.flops / self.peaks.flops_per_s)
        workload, ratios = trial.workload, trial.ratios
        return Measurement(
            workload.name, workload.role, workload.weight, trial.baseline, median(trial.against) * 1e6,
            median(trial.program) * 1e6, median(ratios), interval_of_median(ratios), floor_s * 1e6,
            tuple(round(ratio, 5) for ratio in ratios), "cold",
        )  # fmt: skip

    def believable(self, trial: Trial) -> None:
        """Raises Rejection if the device cannot do it in that time, or if the two clocks never agree."""
        if self._fastest_s(trial) * (1 - _PHYSICS_SLACK) > median(trial.program):
            self.peaks = self.peaks_again()
        fastest_s, time_s, name = self._fastest_s(trial), median(trial.program), trial.workload.name
        if fastest_s * (1 - _PHYSICS_SLACK) > time_s:
            reason = (
                f"impossibly fast on {name}: {time_s * 1e6:.1f} us a call, but this device cannot do the work in less"
                f" than {fastest_s * 1e6:.1f} us"
            )
            raise Rejection(Rejected("timing", reason))
        agreement = min(max(trial.agreement), self._agreement_without_wait(trial))
        if not agreement > 1 - _CLOCK_SLACK:  # a NaN is no agreement
            reason = f"two clocks disagree on {name}: the device's covers at most {agreement:.0%} of the judge's window"
            raise Rejection(Rejected("timing", reason))

    def _agreement_without_wait(self, trial: Trial) -> float:
        """The best of a few blocks: their windows hold nothing but calls."""
        best = 0.0
        for _ in range(_BLOCKS_WITHOUT_WAIT):
            block = self.fresh(trial.workload, trial.calls)
            self.runner.prepare(trial.workload.name, block.calls)
            torch.cuda.synchronize()
            best = max(best, self._agreement(*self.runner.run(waits=False)))
            if best > 1 - _CLOCK_SLACK:
                break
        return best

    def _agreement(self, window: float, own: float) -> float:
        seen = window - self.program_overhead - _UNSEEN_SECONDS
        return own / seen if seen > 0 else 1.0

    def _fastest_s(self, trial: Trial) -> float:
        return max(trial.moved / self.peaks.cache_read_bytes_per_s, trial.flops / self.peaks.flops_per_s)

    def _program(self, trial: Trial) -> None:
        window, own = self.runner.run()
        trial.program.append(max(own, window - self.program_overhead - _UNSEEN_SECONDS) / trial.calls)
        trial.agreement.append(self._agreement(window, own))

    def _baseline(self, trial: Trial) -> None:
        window, own = self.baselines.run()
        trial.against.append(max(own, window - self.baseline_overhead - _UNSEEN_SECONDS) / trial.calls)


def calls_of_block(first: Block, call_s: float, cache_bytes: int, block_s: float = _BLOCK_SECONDS) -> int:
    """How many calls like those of `first` make a block of that time that exceeds the cache, and fit."""
    count = len(first.calls)
    wanted = max(block_s / max(call_s, 1e-6), _COLD_BYTES * cache_bytes / max(first.bytes // count, 1))
    room = min(arena.size / max(arena.next // count, 1) for arena in first.arenas) * _ROOM
    return max(1, min(math.ceil(wanted), _MAX_CALLS, int(room)))


def _empty_window(run: Callable[[], tuple[float, float]]) -> float:
    """What a window takes that has no calls, in seconds."""
    return median(run()[0] for _ in range(_EMPTY_WINDOWS))
