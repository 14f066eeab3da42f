"""Dispatch: which of a few programs and baselines should answer, by what a call's sizes tell?

A champion is fastest on the mean, and may lose somewhere. The rule is a small tree of thresholds, learned from what was
measured on every timed workload, holdout ones included: first of all no workload may be slower than the fastest
baseline, then the mean counts, and a split has to earn its place. It looks at numbers that are known without reading a
tensor's content, and a threshold lies between workloads, never through the sizes that one of them may draw.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

NOISE = 0.97  # of the fastest baseline: what is above is no loss
DEPTH = 3  # questions that a call is asked at most
_WORTH = 0.03  # of the logarithm of the mean: what a further question has to bring, for it is learned from few points

Range = tuple[float, float]


@dataclass(frozen=True)
class Point:
    """A timed workload: the range of each feature over its draws, and each option's speedup over the fastest baseline.

    An option that was not measured on it is not among its speedups.
    """

    workload: str
    weight: float
    features: Mapping[str, Range]
    speedups: Mapping[str, float]


@dataclass(frozen=True)
class Leaf:
    """This option answers."""

    option: str


@dataclass(frozen=True)
class Split:
    """`below` answers where the feature is less than the threshold."""

    feature: str
    threshold: int
    below: Rule
    above: Rule


Rule = Leaf | Split


def learn(points: Sequence[Point], first: str) -> Rule:
    """The best rule over `points`; `first` is the option that answers where nothing speaks against it.

    ValueError if no option was measured on all of the workloads that it would have to serve.
    """
    best = _Search(first).best(points, DEPTH)
    if best is None:
        raise ValueError("no option was measured on every workload")
    return best


def choice(rule: Rule, point: Point) -> str:
    """The option that answers on a workload."""
    while isinstance(rule, Split):
        rule = rule.below if point.features[rule.feature][1] < rule.threshold else rule.above
    return rule.option


def losses(rule: Rule, points: Sequence[Point]) -> list[str]:
    """The workloads on which the rule's answer is slower than the fastest baseline, beyond noise."""
    return [point.workload for point in points if point.speedups[choice(rule, point)] < NOISE]


def options(rule: Rule) -> list[str]:
    """Those that the rule may choose, in its order."""
    if isinstance(rule, Leaf):
        return [rule.option]
    return list(dict.fromkeys((*options(rule.below), *options(rule.above))))


class _Search:
    """Tries every tree. What is best for a set of workloads is found once: many splits lead to the same set."""

    def __init__(self, first: str):
        self.first = first
        self.known: dict[tuple[int, tuple[str, ...]], Rule | None] = {}

    def best(self, points: Sequence[Point], depth: int) -> Rule | None:
        """None if no option serves all of the points."""
        key = depth, tuple(point.workload for point in points)
        if key not in self.known:
            self.known[key] = min(self._candidates(points, depth), key=lambda rule: _cost(rule, points), default=None)
        return self.known[key]

    def _candidates(self, points: Sequence[Point], depth: int) -> Iterator[Rule]:
        common = set(points[0].speedups).intersection(*(point.speedups for point in points[1:]))
        for option in sorted(common, key=lambda option: (option != self.first, option)):
            yield Leaf(option)
        for feature, threshold in _thresholds(points) if depth else ():
            below, above = (self.best(side, depth - 1) for side in _divided(points, feature, threshold))
            if below is not None and above is not None and below != above:
                yield Split(feature, threshold, below, above)


def _cost(rule: Rule, points: Sequence[Point]) -> tuple[int, float]:
    """Losses, then what the mean lacks and the questions cost."""
    total = sum(point.weight for point in points)
    gained = sum(point.weight * math.log(point.speedups[choice(rule, point)]) for point in points) / total
    return len(losses(rule, points)), _WORTH * _questions(rule) - gained


def _questions(rule: Rule) -> int:
    return 0 if isinstance(rule, Leaf) else 1 + _questions(rule.below) + _questions(rule.above)


def _thresholds(points: Sequence[Point]) -> Iterator[tuple[str, int]]:
    """Whole numbers half way, as factors go, between neighbouring ranges that do not overlap."""
    for feature in points[0].features:
        ranges = sorted(point.features[feature] for point in points)
        most = -math.inf
        for (_, high), (low, _) in itertools.pairwise(ranges):
            most = max(most, high)
            if low > most:
                yield feature, max(math.floor(most) + 1, round(math.sqrt(max(most, 1.0) * low)))


def _divided(points: Sequence[Point], feature: str, threshold: int) -> tuple[list[Point], list[Point]]:
    below = [point for point in points if point.features[feature][1] < threshold]
    return below, [point for point in points if point.features[feature][1] >= threshold]
