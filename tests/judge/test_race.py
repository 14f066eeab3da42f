"""Precision is spent where it decides."""

from __future__ import annotations

import random

import pytest

from kevolve.judge.race import FAIR, LOOK, Rules, odd_contents
from kevolve.operators.registry import load_operator
from kevolve.verdict import Fitness

RULES = Rules(most=6, precise=0.02, to_beat=2.0)


def fitness(low: float, high: float) -> Fitness:
    return Fitness(speedup=(low + high) / 2, worst=low, interval=(low, high), roofline=0.5)


@pytest.mark.parametrize(
    ("low", "high", "pairs", "is_over"),
    [
        (0.5, 1.0, LOOK - 1, False),  # nothing is decided before the look
        (0.5, 1.0, LOOK, True),  # surely lost
        (0.5, 1.9, LOOK, False),  # may be nearly as good
        (1.9, 1.95, LOOK, False),  # narrow by luck
        (1.9, 1.95, FAIR, True),
        (1.5, 1.9, 6, True),  # no improver: the usual number of pairs must do
        (1.5, 2.1, 6, False),  # may be an improver
        (1.5, 2.1, 12, True),
    ],
)
def test_a_program_is_measured_as_long_as_it_may_matter(low: float, high: float, pairs: int, is_over: bool) -> None:
    assert RULES.is_over(fitness(low, high), pairs) == is_over


def test_a_champion_to_be_is_measured_to_the_end_however_it_looks() -> None:
    rules = Rules(most=30, precise=0.01, may_drop=False)
    assert not rules.is_over(fitness(0.2, 0.3), 10)
    assert rules.is_over(fitness(0.995, 1.005), 10)
    assert rules.is_over(fitness(0.2, 0.3), 30)


def test_while_there_is_nothing_to_beat_nobody_has_lost() -> None:
    assert not Rules(most=9, precise=0.02).is_over(fitness(0.1, 0.2), LOOK)


def test_odd_contents_lie_where_those_lie_that_are_timed() -> None:
    operator = load_operator("jagged_softmax")
    decide = random.Random(3)
    for workload in (w for w in operator.workloads if w.role == "search"):
        contents, looked_at = odd_contents(operator, workload, 20, decide)
        odd = [number for number, content in enumerate(contents) if content != workload]
        assert 1 <= len(odd) <= 2 <= len(looked_at) + 1
        assert set(odd) <= set(looked_at)
        assert {content.lengths for content in contents} == {workload.lengths}
        assert {content.dtype for content in contents} == {workload.dtype}
