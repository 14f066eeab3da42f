"""Findings: what a run's history comes to, operator by operator. Page, terminal and data files all show these.

Every number is a ratio or a time that the judge measured; what was not measured is None, never a number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from kevolve.report.findings.doubts import doubts_about
from kevolve.report.findings.history import Entry, History, SearchHistory
from kevolve.report.findings.lineage import Step, lineage
from kevolve.report.findings.rejects import Reject, rejects
from kevolve.verdict import Fitness, Measurement, Scored, from_json

State = Literal["faster", "unsure", "slower", "unconfirmed", "nothing"]
Interval = tuple[float, float]

CLAIMS: Mapping[State, str] = {
    "faster": "faster, confirmed on fresh data",
    "unsure": "confirmed on fresh data, but not surely faster than the fastest baseline",
    "slower": "confirmed on fresh data, and slower than the fastest baseline",
    "unconfirmed": "not confirmed: the number is that of the first look, which flatters the best of many",
    "nothing": "no program was scored",
}


@dataclass(frozen=True)
class WorkloadFinding:
    """The shown program on one workload, against every baseline there.

    Times are in microseconds; `baselines_us` come from the survey, which timed each by itself a few times, while
    `baseline_us`, `program_us` and `speedup` are paired. `dropped` says why a baseline has no time.
    """

    name: str
    role: str
    weight: float
    cache: str
    baseline: str
    baseline_us: float
    program_us: float
    speedup: float
    interval: Interval
    roofline: float
    floor_us: float
    pairs: int
    disturbed: int
    baselines_us: Mapping[str, float]
    dropped: Mapping[str, str]

    @property
    def is_surely_slower(self) -> bool:
        return self.interval[1] < 1


@dataclass(frozen=True)
class Finding:
    """One operator on one device. `found` is the speedup of the first look, `plain` that of the starting program."""

    operator: str
    device: str
    state: State
    program: str | None = None
    language: str = ""
    evaluation: int = 0
    speedup: float | None = None
    interval: Interval | None = None
    worst: float | None = None
    roofline: float | None = None
    holdout: float | None = None
    holdout_interval: Interval | None = None
    found: float | None = None
    plain: float | None = None
    reason: str = ""
    diagnosis: str = ""
    sandbox: str = ""
    workloads: tuple[WorkloadFinding, ...] = ()
    baselines: Mapping[str, float] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    ancestors: tuple[str, ...] = ()
    judged: int = 0
    scored: int = 0
    rejects: tuple[Reject, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def claim(self) -> str:
        return CLAIMS[self.state]

    @property
    def slower_on(self) -> tuple[str, ...]:
        """Workloads on which the program loses, for sure or not."""
        return tuple(w.name for w in self.workloads if w.speedup < 1)


def finding_of(history: History, search: SearchHistory) -> Finding:
    """What one search has come to."""
    judged = [entry for entry in search.entries.values() if entry.outcome in ("Scored", "Rejected")]
    counts = Counter(entry.outcome for entry in judged if not entry.reused)
    facts: dict[str, Any] = {
        "judged": counts.total(),
        "scored": counts["Scored"],
        "rejects": rejects(judged),
    }
    best = search.best
    if best is None:
        return Finding(search.operator, search.device, "nothing", **facts, doubts=doubts_about(history, search, None))
    shown = _shown(history, search, best)
    finding = Finding(search.operator, search.device, **shown, **facts)
    return replace(finding, doubts=doubts_about(history, search, finding))


def _shown(history: History, search: SearchHistory, best: Entry) -> dict[str, Any]:
    """Everything about the program that the search has to show."""
    confirmation = search.confirmations.get(best.id) if search.champion else None
    if confirmation is not None:
        verdict = from_json(confirmation.verdict)
        assert isinstance(verdict, Scored)
        fitness, measurements = verdict.fitness, verdict.measurements
        diagnosis, sandbox = verdict.profile.get("diagnosis", ""), confirmation.judgement["sandbox"]
    else:
        measurements = tuple(_measurement(record) for record in best.measurements)
        fitness = Fitness.of([m for m in measurements if m.role == "search"] or measurements)
        diagnosis, sandbox = "", ""
    holdout = [m for m in measurements if m.role == "holdout"]
    held = Fitness.of(holdout) if holdout else None
    steps, ancestors = lineage(history, search, best)
    plain = [entry.speedup for entry in search.entries.values() if not entry.parents and entry.speedup]
    return {
        "state": _state(fitness.interval, is_confirmed=confirmation is not None),
        "program": best.id,
        "language": str(best.record["language"]),
        "evaluation": best.number,
        "speedup": fitness.speedup,
        "interval": fitness.interval,
        "worst": fitness.worst,
        "roofline": fitness.roofline,
        "holdout": held and held.speedup,
        "holdout_interval": held and held.interval,
        "found": best.speedup,
        "plain": max(plain, default=None),
        "reason": confirmation.reason if confirmation else _why_unconfirmed(search),
        "diagnosis": diagnosis,
        "sandbox": sandbox,
        "workloads": tuple(_workload(m, search) for m in measurements),
        "baselines": _baselines(search, measurements),
        "steps": steps,
        "ancestors": ancestors,
    }


def _state(interval: Interval, *, is_confirmed: bool) -> State:
    if not is_confirmed:
        return "unconfirmed"
    return "faster" if interval[0] > 1 else "slower" if interval[1] < 1 else "unsure"


def _why_unconfirmed(search: SearchHistory) -> str:
    tried = list(search.confirmations.values())
    return tried[-1].reason if tried else "no program of this search was measured again"


def _measurement(record: Mapping[str, Any]) -> Measurement:
    return Measurement(**{**record, "interval": tuple(record["interval"]), "ratios": tuple(record.get("ratios", ()))})


def _workload(m: Measurement, search: SearchHistory) -> WorkloadFinding:
    return WorkloadFinding(
        m.workload, m.role, m.weight, m.cache, m.baseline, m.baseline_us, m.us, m.speedup, m.interval,
        m.roofline, m.floor_us, len(m.ratios), m.disturbed,
        search.times_us.get(m.workload, {}), search.dropped.get(m.workload, {}),
    )  # fmt: skip


def _baselines(search: SearchHistory, measurements: Sequence[Measurement]) -> dict[str, float]:
    """Each baseline's speed over the search workloads, as a share of the fastest one's on each; best first.

    Only those that are right on all of them: a mean over some would not stand beside the others.
    """
    weights = {m.workload: m.weight for m in measurements if m.role == "search" and m.workload in search.times_us}
    if not weights:
        return {}
    names = set.intersection(*(set(search.times_us[workload]) for workload in weights))
    shares = {name: _share(search, weights, name) for name in names}
    return dict(sorted(shares.items(), key=lambda pair: -pair[1]))


def _share(search: SearchHistory, weights: Mapping[str, float], name: str) -> float:
    logs = 0.0
    for workload, weight in weights.items():
        times = search.times_us[workload]
        logs += weight * math.log(min(times.values()) / times[name])
    return math.exp(logs / sum(weights.values()))
