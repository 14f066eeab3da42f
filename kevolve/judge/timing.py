"""Timing: how much faster is a program than the fastest baseline, pair by pair?

Baseline and program take turns in random order on the same fresh inputs, each in a process of its own that is stopped
while the other runs, so drift in clocks or load hits both alike (evaluators.md 6.4). What counts is the judge's own
window around a block of calls: it is open whenever the child can run while it could know the content. The child's
clock only has to agree with it. Secret random parts of the timed calls' answers are checked, too.

How many pairs a program gets is decided in `race.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from kevolve.devices.device import Peaks
from kevolve.intervals import interval_of_median
from kevolve.judge.baselines import BaselineProcess
from kevolve.judge.call import Call, place, place_fresh
from kevolve.judge.correctness import Rejection, Runner, check_answer, check_part
from kevolve.judge.draws import Draws
from kevolve.judge.flush import Flush
from kevolve.judge.race import odd_contents
from kevolve.judge.slots import calls_at_most
from kevolve.judge.streams import Streams
from kevolve.operators.operator import Operator, Workload
from kevolve.verdict import Measurement, Rejected

_BLOCK_SECONDS = 0.006  # long enough that waking a process up and stopping it (0.2 ms) is nearly lost in it
_BLOCK_BYTES = 64 << 20  # making content for a block takes longer than timing it
_PHYSICS_SLACK = 0.05
_CLOCK_SLACK = 0.25
_CLOCK_OVERHEAD_SECONDS = 0.0005
_DISTURBED_SHARE = 0.05  # of its window that the baseline waited for a core
_CHECKED_WHOLE = 0.1  # of the checked blocks: whole answers, as of the first block
_CHECKED_CALLS = 2  # whose whole answers are checked
_ALONE, _CLOCK_STEP_SECONDS = 0.5, 2e-6  # of the time that is possible: what one call must take by itself
_STRIKING = 1.1  # times the best ratio of a pair that was checked
_MOST_DISTURBED = 3  # pairs of a workload that are taken anew, and one more for each that counts


@dataclass
class Trial:
    """One workload's paired windows so far, in seconds per call; a block has `calls` calls."""

    workload: Workload
    baseline: str
    calls: int
    program: list[float] = field(default_factory=list)
    against: list[float] = field(default_factory=list)
    own_clock: list[float] = field(default_factory=list)  # child's own time / judge's window, overhead allowed for
    own_ns: list[int] = field(default_factory=list)  # of each call of the last block, by the child's clock
    quickest: float = 0.0  # bytes per second of the call that took least for what it must move, by the same clock
    checked: float = 0.0  # the best ratio of a pair of which something was checked
    disturbed: int = 0
    moved: float = 0.0
    flops: float = 0.0

    @property
    def pairs(self) -> list[float]:
        """Speedup of every pair."""
        return [b / p for b, p in zip(self.against, self.program, strict=True)]

    @property
    def ratios(self) -> list[float]:
        """Geometric mean of every two pairs, one in each order: whoever goes second finds warmer caches."""
        pairs = self.pairs
        return [math.sqrt(one * other) for one, other in zip(pairs[::2], pairs[1::2], strict=False)]


class Stopwatch:
    """Times one program against baselines. Everything it needs is fixed for the program's judging.

    `checked` is the share of the pairs after a workload's first of which something is checked.
    """

    def __init__(
        self,
        operator: Operator,
        runner: Runner,
        baselines: BaselineProcess,
        draws: Draws,
        peaks: Peaks,
        peaks_again: Callable[[], Peaks],
        flush: Flush,
        streams: Streams,
        checked: float,
    ):
        self.operator = operator
        self.runner = runner
        self.baselines = baselines
        self.arenas = runner.arenas
        self.draws = draws
        self.peaks = peaks
        self.peaks_again = peaks_again
        self.flush = flush
        self.streams = streams
        self.checked = checked
        self.busy_seconds = self.cpu_seconds = 0.0  # in the program's windows

    def warm(self, workload: Workload, baseline: str) -> None:
        """Let the baseline process compile what it needs for `workload`, for calls of any size."""
        self.baselines.warm(self.operator, baseline, self.fresh(workload, 2))

    def begin(self, workload: Workload, baseline: str) -> Trial:
        """A trial, with blocks long enough; found with unmeasured calls of each, which also warm both up."""
        self.runner.load(workload)
        self.arenas.reset()
        placed = [place(self.operator, workload, self.draws.of(workload).inputs, self.arenas)]
        self.runner.reach()
        first = min(self.runner.run(workload, placed)[0] for _ in range(2))
        window = min(self.baselines.run(self.operator, baseline, placed, self.arenas)[0] for _ in range(2))
        used = self.arenas.inputs.next + self.arenas.outputs.next
        wanted = math.ceil(_BLOCK_SECONDS / min(first, window)) if workload.cache == "warm" else 1
        calls = min(wanted, calls_at_most(self.operator), _BLOCK_BYTES // max(used, 1))
        return Trial(workload, baseline, max(1, calls))

    def two_pairs(self, trial: Trial) -> None:
        """One in each order, in random order."""
        program_first = self.streams.decisions.random() < 0.5
        self.pair(trial, program_first)
        self.pair(trial, not program_first)

    def pair(self, trial: Trial, program_first: bool) -> None:
        """One more pair, which nothing disturbed if that can be had."""
        while True:
            placed = self.fresh(trial.workload, trial.calls)
            turns = [self._program, self._baseline] if program_first else [self._baseline, self._program]
            is_disturbed = sum(turn(trial, placed) for turn in turns) > 0  # both, whatever the first says
            trial.disturbed += is_disturbed
            if not is_disturbed or trial.disturbed > _MOST_DISTURBED + len(trial.program):
                break  # where a neighbour stays, its pairs must do
            for windows in (trial.program, trial.against, trial.own_clock):
                windows.pop()
        costs = [self.operator.cost(call.given) for call in placed]
        trial.moved = sum(cost.bytes for cost in costs) / trial.calls
        trial.flops = sum(cost.flops for cost in costs) / trial.calls
        alone = [c.bytes / (ns * 1e-9 + _CLOCK_STEP_SECONDS) for c, ns in zip(costs, trial.own_ns, strict=True)]
        trial.quickest = max(trial.quickest, *alone)
        self._check_some(trial, placed)

    def _check_some(self, trial: Trial, placed: list[Call]) -> None:
        """Answers of the first pair and of some others, whole; of a share of the rest a part of one.

        A pair that is much faster than those checked is always checked: work that is left out only now and then shows.
        """
        decide, ratio = self.streams.decisions, trial.pairs[-1]
        is_striking = ratio > _STRIKING * trial.checked
        if is_striking or decide.random() < self.checked * _CHECKED_WHOLE:
            for call in decide.sample(placed, min(len(placed), _CHECKED_CALLS)):
                check_answer(self.operator, trial.workload, call, self.arenas)
        elif decide.random() < self.checked:
            check_part(self.operator, trial.workload, decide.choice(placed), self.arenas, self.streams.next_call())
        else:
            return
        trial.checked = max(trial.checked, ratio)

    def odd_block(self, trial: Trial) -> None:
        """A block like those that are timed, but some of its contents are hard to get right. Raises Rejection.

        So that nobody can be careful only where calls come singly, or only for the first calls of a block.
        """
        contents, looked_at = odd_contents(self.operator, trial.workload, trial.calls, self.streams.decisions)
        if not looked_at:
            return
        placed = self.fresh_each(contents)
        self.runner.run(trial.workload, placed)
        for number in looked_at:
            check_answer(self.operator, contents[number], placed[number], self.arenas)

    def fresh(self, workload: Workload, calls: int) -> list[Call]:
        """New content for every call, made cheaply from one draw, while the child is stopped."""
        return self.fresh_each([workload] * calls)

    def fresh_each(self, contents: Sequence[Workload]) -> list[Call]:
        """The same for a block of calls that differ in more than their draw, but not in their dtypes."""
        self.runner.load(contents[0])
        drawn = [self.draws.source(workload) for workload in contents]
        while True:
            self.arenas.reset()
            placed = [
                place_fresh(self.operator, workload, inputs, self.streams.next_call(), self.arenas)
                for workload, inputs in zip(contents, drawn, strict=True)
            ]
            if self.runner.reach():
                return placed

    def measurement(self, trial: Trial) -> Measurement:
        """What the pairs so far say."""
        floor_s = max(trial.moved / self.peaks.copy_bytes_per_s, trial.flops / self.peaks.flops_per_s)
        workload, ratios = trial.workload, trial.ratios
        return Measurement(
            workload.name, workload.role, workload.weight, trial.baseline, median(trial.against) * 1e6,
            median(trial.program) * 1e6, median(ratios), interval_of_median(ratios), floor_s * 1e6,
            tuple(round(ratio, 5) for ratio in ratios), workload.cache, trial.disturbed,
        )  # fmt: skip

    def believable(self, trial: Trial) -> None:
        """Raises Rejection if the machine cannot do it in that time, or if the child's clock never agrees with ours.

        One pair in agreement is enough: where something else had the core, the two differ honestly.
        """
        self._possible(trial)
        agreement = max(trial.own_clock)
        if abs(agreement - 1) > _CLOCK_SLACK:
            raise Rejection(
                Rejected(
                    "timing",
                    f"two clocks disagree on {trial.workload.name}:"
                    f" the program's own covers at most {agreement:.0%} of the judge's window",
                )
            )

    def _program(self, trial: Trial, placed: list[Call]) -> bool:
        self.flush.before(trial.workload)
        used = self.runner.child.busy_seconds
        window, times = self.runner.run(trial.workload, placed)
        self.busy_seconds += window
        self.cpu_seconds += self.runner.child.busy_seconds - used
        trial.program.append(window / len(placed))
        trial.own_ns = times
        own = sum(times) * 1e-9
        trial.own_clock.append(own / window if own > window else min(1.0, (own + _CLOCK_OVERHEAD_SECONDS) / window))
        return False

    def _baseline(self, trial: Trial, placed: list[Call]) -> bool:
        """Was it kept waiting for a core by somebody? Only the baseline is asked: a program could disturb itself."""
        self.flush.before(trial.workload)
        waited = self.baselines.waited_seconds()
        window, _ = self.baselines.run(self.operator, trial.baseline, placed, self.arenas)
        trial.against.append(window / len(placed))
        return self.baselines.waited_seconds() - waited > _DISTURBED_SHARE * window

    def _possible(self, trial: Trial) -> None:
        """Raises Rejection if the machine cannot do it in that time, the peaks measured once more to be sure."""
        reason = self._impossible(trial)
        if reason:
            self.peaks = self.peaks_again()
            reason = self._impossible(trial)
        if reason:
            raise Rejection(Rejected("timing", reason))

    def _impossible(self, trial: Trial) -> str:
        """Why the machine cannot do that, or nothing."""
        time_s, name = median(trial.program), trial.workload.name
        fastest_s = max(trial.moved / self.peaks.cache_read_bytes_per_s, trial.flops / self.peaks.flops_per_s)
        if time_s < fastest_s * (1 - _PHYSICS_SLACK):
            return (
                f"impossibly fast on {name}: {time_s * 1e6:.1f} us a call, but this machine cannot do the work in less"
                f" than {fastest_s * 1e6:.1f} us"
            )
        if trial.quickest > self.peaks.cache_read_bytes_per_s / _ALONE:
            return f"works on several calls at a time on {name}: some of them are too short for what they must read"
        return ""
