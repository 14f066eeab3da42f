"""Timing: how much faster is a program than the fastest baseline, and how sure are we?

Baseline and program take turns in random order on the same fresh inputs, each in a process of its own that is stopped
while the other runs, so drift in clocks or load hits both alike (evaluators.md 6.4). What counts is the
judge's own window around a block of calls; the child's clock only has to agree with it. The result is a ratio with
an interval, never two absolute times. Secret random parts of the timed calls' answers are checked, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

import torch

from kevolve.devices.device import Peaks
from kevolve.judge.baselines import BaselineProcess
from kevolve.judge.call import Arenas, Call, place, place_fresh
from kevolve.judge.correctness import Rejection, Runner, check_part
from kevolve.judge.draws import Draws
from kevolve.operators.operator import Inputs, Operator, Workload
from kevolve.verdict import Measurement, Rejected

MIN_PAIRS = 6  # the fewest for which (smallest, largest) covers the median in 95 % of cases
_FAIR_PAIRS = 9  # before that, stopping at a narrow interval would pick the intervals that are narrow by luck
_BLOCK_SECONDS = 0.004  # long enough that waking a process up (about 0.1 ms) is nearly lost in it
_MAX_CALLS = 64
_BLOCK_BYTES = 32 << 20  # making content for a block takes longer than timing it
_PRECISE = 0.015  # stop when the interval is this narrow on either side
_SLOW, _PRECISE_IF_SLOW = 0.8, 0.1  # a program that surely loses to the baseline need not be known so well
_PHYSICS_SLACK = 0.05
_CLOCK_SLACK = 0.25
_CLOCK_OVERHEAD_SECONDS = 0.0005
_CHECKED_SHARE = 0.3  # of the pairs after the first, which is always checked


def interval_of_median(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Distribution-free interval of the median from order statistics; the whole range below six values."""
    ordered = sorted(values)
    count = len(ordered)
    rank, outside = 0, 0.0
    while rank < count // 2:
        outside += 2 * math.comb(count, rank) / 2**count
        if outside > 1 - confidence:
            break
        rank += 1
    low = max(rank - 1, 0)
    return ordered[low], ordered[count - 1 - low]


@dataclass
class Pairs:
    """The paired windows of one workload, in seconds per call."""

    program: list[float] = field(default_factory=list)
    baseline: list[float] = field(default_factory=list)
    own_clock: list[float] = field(default_factory=list)  # child's own time / judge's window, overhead allowed for

    @property
    def ratios(self) -> list[float]:
        """Speedup of every pair."""
        return [b / p for b, p in zip(self.baseline, self.program, strict=True)]

    def precise(self) -> bool:
        """Is the interval narrow enough to stop?"""
        if len(self.program) < MIN_PAIRS:
            return False
        low, high = interval_of_median(self.ratios)
        is_slow = high < _SLOW
        if not is_slow and len(self.program) < _FAIR_PAIRS:
            return False
        centre = median(self.ratios)
        return max(high / centre, centre / low) < 1 + (_PRECISE_IF_SLOW if is_slow else _PRECISE)


class Stopwatch:
    """Times one program against baselines. Everything it needs is fixed for the program's judging."""

    def __init__(
        self,
        operator: Operator,
        runner: Runner,
        baselines: BaselineProcess,
        arenas: Arenas,
        draws: Draws,
        peaks: Peaks,
        peaks_again: Callable[[], Peaks],
    ):
        self.operator = operator
        self.runner = runner
        self.baselines = baselines
        self.arenas = arenas
        self.draws = draws
        self.peaks = peaks
        self.peaks_again = peaks_again
        self.busy_seconds = 0.0

    def warm(self, workload: Workload, baseline: str, rng: torch.Generator) -> None:
        """Let the baseline process compile what it needs for `workload`, for calls of any size."""
        self.baselines.warm(self.operator, baseline, self._fresh(workload, 2, self.draws.of(workload).inputs, rng))

    def measure(self, workload: Workload, baseline: str, rng: torch.Generator, max_pairs: int) -> Measurement:
        """The program against `baseline` on `workload`. Raises Rejection."""
        drawn = self.draws.of(workload).inputs
        calls = self._block(workload, baseline, drawn)
        pairs = Pairs()
        moved = flops = 0.0
        while len(pairs.program) < max_pairs and not pairs.precise():
            placed = self._fresh(workload, calls, drawn, rng)
            self._pair(workload, baseline, placed, pairs, rng)
            costs = [self.operator.cost(call.given) for call in placed]
            moved, flops = sum(c.bytes for c in costs) / calls, sum(c.flops for c in costs) / calls
        time_s = median(pairs.program)
        self._possible(workload, time_s, moved, flops)
        self._agreeing(workload, pairs)
        floor_s = max(moved / self.peaks.copy_bytes_per_s, flops / self.peaks.flops_per_s)
        low, high = interval_of_median(pairs.ratios)
        return Measurement(
            workload.name, workload.role, workload.weight, baseline, median(pairs.baseline) * 1e6, time_s * 1e6,
            median(pairs.ratios), (low, high), floor_s * 1e6,
        )  # fmt: skip

    def _fresh(self, workload: Workload, calls: int, drawn: Inputs, rng: torch.Generator) -> list[Call]:
        """New content for every call, made cheaply from one draw."""
        self.arenas.reset()
        return [place_fresh(self.operator, workload, drawn, rng, self.arenas) for _ in range(calls)]

    def _block(self, workload: Workload, baseline: str, drawn: Inputs) -> int:
        """How many calls make a window long enough; found with an unmeasured call of each, which also warms both up."""
        self.arenas.reset()
        placed = [place(self.operator, workload, drawn, self.arenas)]
        first, _ = self.runner.run(workload, placed, self.arenas)
        self.baselines.run(self.operator, baseline, placed, self.arenas)
        window, _ = self.baselines.run(self.operator, baseline, placed, self.arenas)
        used = self.arenas.inputs.next + self.arenas.outputs.next
        wanted = math.ceil(_BLOCK_SECONDS / min(first, window))
        return max(1, min(wanted, _MAX_CALLS, _BLOCK_BYTES // max(used, 1)))

    def _pair(self, workload: Workload, baseline: str, placed: list[Call], pairs: Pairs, rng: torch.Generator) -> None:
        def program() -> None:
            window, times = self.runner.run(workload, placed, self.arenas)
            self.busy_seconds += window
            pairs.program.append(window / len(placed))
            pairs.own_clock.append((sum(times) * 1e-9 + _CLOCK_OVERHEAD_SECONDS) / window)

        def other() -> None:
            window, _ = self.baselines.run(self.operator, baseline, placed, self.arenas)
            pairs.baseline.append(window / len(placed))

        program_first = bool(torch.randint(2, (), generator=rng))
        for turn in (program, other) if program_first else (other, program):
            turn()
        self._check_some(workload, placed, 1.0 if len(pairs.program) == 1 else _CHECKED_SHARE, rng)

    def _check_some(self, workload: Workload, placed: list[Call], share: float, rng: torch.Generator) -> None:
        """With probability `share`, a part of the answer of one timed call, whichever."""
        if float(torch.rand((), generator=rng)) < share:
            chosen = int(torch.randint(len(placed), (), generator=rng))
            check_part(self.operator, workload, placed[chosen], self.arenas, rng)

    def _possible(self, workload: Workload, time_s: float, moved: float, flops: float) -> None:
        """Raises Rejection if the machine cannot do it in `time_s`, the peaks measured once more to be sure."""

        def fastest_s(peaks: Peaks) -> float:
            return max(moved / peaks.cache_read_bytes_per_s, flops / peaks.flops_per_s)

        if time_s < fastest_s(self.peaks) * (1 - _PHYSICS_SLACK):
            self.peaks = self.peaks_again()
        if time_s < fastest_s(self.peaks) * (1 - _PHYSICS_SLACK):
            raise Rejection(
                Rejected(
                    "timing",
                    f"impossibly fast on {workload.name}: {time_s * 1e6:.1f} us a call, but this machine cannot"
                    f" do the work in less than {fastest_s(self.peaks) * 1e6:.1f} us",
                )
            )

    def _agreeing(self, workload: Workload, pairs: Pairs) -> None:
        """Raises Rejection if the child's clock does not agree with the judge's."""
        agreement = median(pairs.own_clock)
        if not agreement > 1 - _CLOCK_SLACK:  # a NaN is no agreement
            raise Rejection(
                Rejected(
                    "timing",
                    f"two clocks disagree on {workload.name}:"
                    f" the program's own covers {agreement:.0%} of the judge's window",
                )
            )
