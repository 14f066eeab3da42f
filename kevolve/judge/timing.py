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
from kevolve.judge.call import Call, place_as_timed, place_fresh
from kevolve.judge.correctness import Rejection, Runner, check_answer, check_guards, check_pieces, reject_if
from kevolve.judge.draws import Draws
from kevolve.judge.flush import Flush
from kevolve.judge.race import FAIR, odd_contents
from kevolve.judge.slots import calls_at_most
from kevolve.judge.streams import Streams
from kevolve.operators.operator import Operator, Workload
from kevolve.verdict import Measurement, Rejected

_BLOCK_SECONDS = 0.006  # long enough that waking a process up (0.2 ms) is nearly lost in it
_BLOCK_BYTES = 128 << 20  # more narrows the interval little, and its content takes longer to make than to time
_PHYSICS_SLACK = 0.05
_CLOCK_SLACK = 0.25
_CLOCK_OVERHEAD_SECONDS = 0.0005
_MORE_FOR_THE_CLOCKS = 3  # times two pairs, before clocks that disagree are believed to
_DISTURBED_SHARE = 0.05  # of its window that the baseline waited for a core
_CHECKED_WHOLE = 0.1  # of the checked blocks: whole answers, as of the first block
_CHECKED_NUMBERS = 1 << 17  # input numbers of the pieces that are checked of every pair; four times as many if closely
_CHECKED_CALLS = 2  # whose whole answers are checked
_ALONE, _CLOCK_STEP_SECONDS = 0.5, 2e-6  # of the time that is possible: what one call must take by itself
_STRIKING = 1.1  # times the best ratio of a pair that was checked
_MOST_DISTURBED = 3  # pairs of a workload that are taken anew, and one more for each that counts


class Disturbed(Exception):
    """Other work keeps the machine from timing anything, whatever the program does."""


@dataclass
class Trial:
    """One workload's paired windows so far, in seconds per call; a block has `calls` calls."""

    workload: Workload
    baseline: str
    calls: int
    program: list[float] = field(default_factory=list)
    against: list[float] = field(default_factory=list)
    own_clock: list[float] = field(default_factory=list)  # child's own time / judge's window, overhead allowed for
    their_clock: list[float] = field(default_factory=list)  # the same of the baseline process, which does not lie
    own_ns: list[int] = field(default_factory=list)  # of each call of the last block, by the child's clock
    quickest: float = 0.0  # bytes per second of the call that took least for what it must move, by the same clock
    checked: float = 0.0  # the best ratio of a pair of which something was checked
    disturbed: int = 0
    odd: list[tuple[int, list[Workload]]] = field(default_factory=list)  # to come, and after how many pairs at least
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

    def clocks_agree(self) -> bool:
        """Does the program's own clock agree with the judge's, in one pair at least?"""
        return _agrees(max(self.own_clock))

    def reject_if_clocks_disagree(self) -> None:
        """Raises Rejection, or Disturbed where the baseline process's clock never agrees either."""
        if self.clocks_agree():
            return
        agreement, name = max(self.own_clock), self.workload.name
        if agreement < 1 and not any(_agrees(clock) for clock in self.their_clock):
            raise Disturbed(f"too much other work on this machine to time anything on {name}")
        told = f"the program's own covers at most {agreement:.0%} of the judge's window"
        raise Rejection(Rejected("timing", f"two clocks disagree on {name}: {told}"))


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

    def begin(self, workload: Workload, baseline: str, odd: Sequence[Workload] = ()) -> Trial:
        """A trial, with blocks long enough; found with unmeasured calls of each, which also warm both up.

        `odd` contents come among the timed blocks, when nobody expects them.
        """
        self.runner.load(workload)
        self.arenas.reset()
        placed = [place_as_timed(self.operator, workload, self.draws.of(workload).inputs, self.arenas)]
        self.runner.reach()
        first = min(self.runner.run(workload, placed)[0] for _ in range(2))
        window = min(self.baselines.run(self.operator, baseline, placed, self.arenas)[0] for _ in range(2))
        used = self.arenas.inputs.next + self.arenas.outputs.next
        wanted = math.ceil(_BLOCK_SECONDS / min(first, window)) if workload.cache == "warm" else 1
        calls = min(wanted, calls_at_most(self.operator), _BLOCK_BYTES // max(used, 1))
        calls = max(1, calls)
        decide, most = self.streams.decisions, -(-calls // 2)
        shuffled = decide.sample(odd, len(odd))
        blocks = [shuffled[first : first + most] for first in range(0, len(odd), most)]
        return Trial(workload, baseline, calls, odd=[(decide.randrange(2 * FAIR), block) for block in blocks])

    def two_pairs(self, trial: Trial) -> None:
        """One in each order, in random order."""
        program_first = self.streams.decisions.random() < 0.5
        for is_first in (program_first, not program_first):
            self.odd_that_are_due(trial, len(trial.program))
            self.pair(trial, is_first)

    def pair(self, trial: Trial, program_first: bool) -> None:
        """One more pair, which nothing disturbed if that can be had."""
        while True:
            placed = self.fresh(trial.workload, trial.calls)
            turns = [self._program, self._baseline] if program_first else [self._baseline, self._program]
            is_disturbed = sum(turn(trial, placed) for turn in turns) > 0  # both, whatever the first says
            trial.disturbed += is_disturbed
            if not is_disturbed or trial.disturbed > _MOST_DISTURBED + len(trial.program):
                break  # where a neighbour stays, its pairs must do
            for windows in (trial.program, trial.against, trial.own_clock, trial.their_clock):
                windows.pop()
        costs = [self.operator.cost(call.given) for call in placed]
        trial.moved = sum(cost.bytes for cost in costs) / trial.calls
        trial.flops = sum(cost.flops for cost in costs) / trial.calls
        alone = [c.bytes / (ns * 1e-9 + _CLOCK_STEP_SECONDS) for c, ns in zip(costs, trial.own_ns, strict=True)]
        trial.quickest = max(trial.quickest, *alone)
        self._check_some(trial, placed)

    def _check_some(self, trial: Trial, placed: list[Call]) -> None:
        """Pieces of all calls of every pair; answers of the first pair and of some others whole.

        Those of a pair that is much faster than any before always are: work that is left out now and then shows.
        """
        decide, ratio, workload = self.streams.decisions, trial.pairs[-1], trial.workload
        is_striking, trial.checked = ratio > _STRIKING * trial.checked, max(trial.checked, ratio)
        for call in placed:
            check_guards(workload, call, self.arenas, "timing")
        numbers = _CHECKED_NUMBERS * (4 if self.checked == 1 else 1)
        in_pieces = check_pieces(self.operator, workload, placed, self.streams.next_call(), numbers)
        if is_striking or decide.random() < self.checked * (_CHECKED_WHOLE if in_pieces else 1.0):
            for call in decide.sample(placed, min(len(placed), _CHECKED_CALLS)):
                check_answer(self.operator, workload, call, self.arenas)

    def odd_that_are_due(self, trial: Trial, pairs: float = math.inf) -> None:
        """Blocks like those that are timed, with odd contents here and there, that were to come after so many pairs.

        So that nobody can be careful only where calls come singly, or only for a while. Raises Rejection.
        """
        due = [odd for after, odd in trial.odd if after <= pairs]
        trial.odd = [(after, odd) for after, odd in trial.odd if after > pairs]
        for odd in due:
            self.runner.load(trial.workload)
            where = dict(zip(self.streams.decisions.sample(range(trial.calls), len(odd)), odd, strict=True))
            usual = self.draws.source(trial.workload)
            while True:
                self.arenas.reset()
                placed = [
                    place_as_timed(self.operator, trial.workload, self.draws.of(where[number]).inputs, self.arenas)
                    if number in where
                    else place_fresh(self.operator, trial.workload, usual, self.streams.next_call(), self.arenas)
                    for number in range(trial.calls)
                ]
                if self.runner.reach():
                    break
            self.runner.run(trial.workload, placed)
            for number, content in where.items():
                check_guards(content, placed[number], self.arenas, "timing")
                reject_if(self.draws.of(content).check(placed[number].answer()), content, "timing")

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

        One pair in agreement is enough: where something else had the core, the two differ honestly. Raises Disturbed
        where the clock of the baseline process never agrees either.
        """
        self._possible(trial)
        for _ in range(_MORE_FOR_THE_CLOCKS):
            if trial.clocks_agree():
                return
            self.two_pairs(trial)
        trial.reject_if_clocks_disagree()

    def _program(self, trial: Trial, placed: list[Call]) -> bool:
        self.flush.before(trial.workload)
        used, waited = self.runner.child.busy_seconds, self.runner.child.first_waited_seconds()
        window, times = self.runner.run(trial.workload, placed)
        waited = self.runner.child.first_waited_seconds() - waited
        self.busy_seconds += window
        self.cpu_seconds += self.runner.child.busy_seconds - used
        trial.program.append(window / len(placed))
        trial.own_ns = times
        trial.own_clock.append(_agreement(times, window, waited))
        return False

    def _baseline(self, trial: Trial, placed: list[Call]) -> bool:
        """Was it kept waiting for a core by somebody? Only the baseline is asked: a program could disturb itself."""
        self.flush.before(trial.workload)
        waited = self.baselines.waited_seconds()
        window, times = self.baselines.run(self.operator, trial.baseline, placed, self.arenas)
        trial.against.append(window / len(placed))
        trial.their_clock.append(_agreement(times, window, 0.0))
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


def _agreement(times: Sequence[int], window: float, waited: float) -> float:
    """A process's own times of its calls, in ns, by the judge's window: what it waited for a core is not its doing."""
    own = sum(times) * 1e-9
    return own / window if own > window else min(1.0, (own + waited + _CLOCK_OVERHEAD_SECONDS) / window)


def _agrees(agreement: float) -> bool:
    return abs(agreement - 1) <= _CLOCK_SLACK
