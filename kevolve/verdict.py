"""Verdicts: Scored, Rejected or Fault, and never a default number in place of one of them.

A `Rejected` is about the program and its proposer should hear the reason; a `Fault` is about the
machine, says nothing of the program, and is never a score (evaluators.md, conclusion 7).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from kevolve.intervals import FEWEST_TO_RESAMPLE, interval_of_mean

Stage = Literal["screen", "build", "correctness", "timing"]
Role = Literal["search", "holdout", "adversarial"]
Cache = Literal["warm", "cold"]
FaultKind = Literal["sandbox", "toolchain", "device", "timeout", "lost", "unverified"]

STAGES: tuple[Stage, ...] = get_args(Stage)
ROLES: tuple[Role, ...] = get_args(Role)
CACHES: tuple[Cache, ...] = get_args(Cache)


@dataclass(frozen=True)
class Measurement:
    """One workload's timing: the program against the fastest correct baseline, paired and interleaved.

    `speedup` is the median of the paired `ratios` baseline / program, `interval` its 95 % interval,
    `floor_us` the least time that the cost model allows at the device's measured copy rate. `cache` says whether the
    inputs came fresh from a cache or from memory; `disturbed` counts pairs that were taken anew because other work
    had kept the baseline waiting for a core.
    """

    workload: str
    role: Role
    weight: float
    baseline: str
    baseline_us: float
    us: float
    speedup: float
    interval: tuple[float, float]
    floor_us: float
    ratios: tuple[float, ...] = ()
    cache: Cache = "warm"
    disturbed: int = 0

    @property
    def roofline(self) -> float:
        """Share of the copy-rate bound that the program reaches (1.0 is the bound)."""
        return self.floor_us / self.us


@dataclass(frozen=True)
class Fitness:
    """What selection sees: the weighted geometric mean of the speedups, and the worst one."""

    speedup: float
    worst: float
    interval: tuple[float, float]
    roofline: float

    @classmethod
    def of(cls, measurements: Iterable[Measurement]) -> Fitness:
        """Fitness over `measurements`, weighted by how much of the traffic each stands for."""
        timed = list(measurements)
        if not timed:
            raise ValueError("fitness needs at least one timed workload")
        total = sum(m.weight for m in timed)

        def mean(values: Iterable[float]) -> float:
            logs = sum(m.weight * math.log(value) for m, value in zip(timed, values, strict=True))
            return math.exp(logs / total)

        return cls(
            speedup=mean(m.speedup for m in timed),
            worst=min(m.speedup for m in timed),
            interval=_interval(timed) or (mean(m.interval[0] for m in timed), mean(m.interval[1] for m in timed)),
            roofline=mean(m.roofline for m in timed),
        )


def _interval(timed: Sequence[Measurement]) -> tuple[float, float] | None:
    """By resampling the pairs; None if there are too few, and the workloads' own intervals must do."""
    if any(len(m.ratios) < FEWEST_TO_RESAMPLE for m in timed):
        return None
    return interval_of_mean([m.ratios for m in timed], [m.weight for m in timed])


@dataclass(frozen=True)
class Scored:
    """The program is correct on every workload and was timed on the search workloads."""

    fitness: Fitness
    measurements: tuple[Measurement, ...]
    profile: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rejected:
    """The program is wrong or not allowed: its proposer should hear why."""

    stage: Stage
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Fault:
    """The machine's trouble, never the program's.

    The kind `unverified` is that of a machine without the device: what could be done without it was done, found nothing
    wrong, and says nothing of how the program does there.
    """

    kind: FaultKind
    reason: str
    detail: str = ""


Verdict = Scored | Rejected | Fault


@dataclass(frozen=True)
class Key:
    """What a verdict is a verdict on. Equal keys are judged once."""

    program: str
    device: str
    toolchain: str
    operator_version: str
    judge_version: str


@dataclass(frozen=True)
class Judgement:
    """A verdict with its circumstances: the record that is stored."""

    key: Key
    verdict: Verdict
    artefact: str = ""
    sandbox: str = ""
    seed: int = 0
    seconds: float = 0.0
    environment: Mapping[str, Any] = field(default_factory=dict)


def to_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict as plain JSON, tagged with its kind."""
    return {"verdict": type(verdict).__name__, **asdict(verdict)}


def from_json(record: Mapping[str, Any]) -> Verdict:
    """Inverse of `to_json`; raises ValueError on a tag that is none of the three."""
    fields = {name: value for name, value in record.items() if name != "verdict"}
    match record.get("verdict"):
        case "Scored":
            fitness = dict(fields["fitness"])
            fitness["interval"] = tuple(fitness["interval"])
            measurements = tuple(
                Measurement(**{**m, "interval": tuple(m["interval"]), "ratios": tuple(m.get("ratios", ()))})
                for m in fields["measurements"]
            )
            return Scored(Fitness(**fitness), measurements, fields.get("profile", {}))
        case "Rejected":
            return Rejected(**fields)
        case "Fault":
            return Fault(**fields)
        case other:
            raise ValueError(f"not a verdict: {other!r} (expected Scored, Rejected or Fault)")
