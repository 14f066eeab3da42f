"""The race: how many pairs does a program get? Precision is spent where it decides.

First a look at every workload. A program that has surely lost against what the search has already is let go; others
get more pairs until the interval is narrow; and one that may be better than all before gets the most. A confirmation
goes on until a small difference would show.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kevolve.judge.streams import Streams
from kevolve.operators.operator import Operator, Workload
from kevolve.verdict import Fitness, Measurement

LOOK = 2  # times two pairs of every workload before anything is decided
FAIR = 5  # before that, stopping at a narrow interval would pick the intervals that are narrow by luck
ODD_SHARE = 0.15  # times the share of pairs that are checked: how often a block with odd contents comes between
_SELDOM = 3
_SURELY_LOST = 0.9  # of what is to beat, at the upper end of the interval
_ODD_CALLS = 2  # of a block with odd contents


T = TypeVar("T", contravariant=True)


class Watch(Protocol[T]):
    """What times a program, trial by trial: a device's stopwatch. `checked` is a share of the pairs."""

    streams: Streams
    checked: float

    def two_pairs(self, trial: T) -> None:
        """Two more pairs of the trial, one in each order."""
        ...

    def measurement(self, trial: T) -> Measurement:
        """What its pairs so far say."""
        ...

    def odd_block(self, trial: T) -> None:
        """Calls like those of the trial with contents that are hard to get right, untimed."""
        ...


@dataclass(frozen=True)
class Rules:
    """When it is enough. `precise`: half an interval, relative; `to_beat`: the best speedup so far, 0 if none.

    `most` times two pairs of a workload, twice as many for a program that may be better than `to_beat`.
    """

    most: int
    precise: float
    to_beat: float = 0.0
    may_drop: bool = True

    def is_over(self, fitness: Fitness, rounds: int) -> bool:
        """Has a program with this fitness, after so many times two pairs of every workload, been measured enough?"""
        low, high = fitness.interval
        if rounds < LOOK:
            return False
        if self.may_drop and high < _SURELY_LOST * self.to_beat:
            return True
        if rounds >= FAIR and (high - low) / 2 <= self.precise * fitness.speedup:
            return True
        is_improver = self.may_drop and 0 < self.to_beat <= high
        return rounds >= self.most * (2 if is_improver else 1)


def race(watch: Watch[T], trials: Sequence[T], decisive: Sequence[T], rules: Rules) -> None:
    """Take pairs of every trial in turns, until the rules say of the `decisive` ones' fitness that it is enough.

    Trials that decide nothing get a third of the pairs.
    """
    rounds = 0
    while not rounds or not rules.is_over(Fitness.of(watch.measurement(trial) for trial in decisive), rounds):
        for trial in trials if rounds % _SELDOM == 0 else decisive:
            watch.two_pairs(trial)
            if watch.streams.decisions.random() < ODD_SHARE * watch.checked:
                watch.odd_block(trial)
        rounds += 1


def odd_of(operator: Operator, odd: Sequence[Workload], workload: Workload) -> list[Workload]:
    """Those of `odd` that can lie where timed calls of `workload` lie, so that only their contents are odd."""
    room = operator.capacity(workload)

    def fits(other: Workload) -> bool:
        if (other.sizes, other.dtype, other.index_dtype) != (workload.sizes, workload.dtype, workload.index_dtype):
            return False
        needs = operator.capacity(other)
        return room is None or needs is None or all(needs[name] <= most for name, most in room.items())

    return [other for other in odd if other.layout == workload.layout and fits(other)]


def odd_contents(
    operator: Operator, workload: Workload, calls: int, decide: random.Random
) -> tuple[list[Workload], list[int]]:
    """What each call of a block is given where a few get odd contents, and which calls are then looked at.

    Their lengths are those of the workload: others would take another room, and show in where the calls lie. The
    second is empty if there is nothing odd.
    """
    kinds = [odd for odd in operator.odd(workload, decide) if odd.lengths == workload.lengths]
    contents = [workload] * calls
    if not kinds:
        return contents, []
    chosen = decide.sample(range(calls), min(calls, _ODD_CALLS))
    for number in chosen:
        contents[number] = decide.choice(kinds)
    return contents, sorted({*chosen, decide.randrange(calls)})
