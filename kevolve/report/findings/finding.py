"""Findings: what a run's history comes to, operator by operator. Page, terminal and data files all show these.

Every number is a ratio or a time that the judge measured; what was not measured is None, never a number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from kevolve.report.findings.candidates import Candidate, candidates
from kevolve.report.findings.doubts import doubts_about
from kevolve.report.findings.history import Entry, History, SearchHistory
from kevolve.report.findings.left_out import by_dtype, where_none_is_wrong
from kevolve.report.findings.lineage import Step, lineage
from kevolve.report.findings.rejects import Reject, rejects
from kevolve.report.findings.starting import Start, is_start, plain_of, starts, tried, written
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
    `baseline_us`, `program_us` and `speedup` are paired. `dropped` says why a baseline has no time. `about` gives
    sizes, dtype and lengths; it is empty if the run does not tell them.
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
    about: str = ""

    @property
    def is_surely_slower(self) -> bool:
        return self.interval[1] < 1


@dataclass(frozen=True)
class Finding:
    """One operator on one device.

    `found` is the speedup of the first look, `plain` that of the plain starting program in the same language, which is
    `plain_program`. `worst` is over the search workloads, `worst_holdout` over the holdout ones; each has its
    workload's name beside it. `unmeasured` are workloads that the shown program has no time on. `wrong_on` are the
    search workloads on which a baseline is left out as wrong, and `where_none_is_wrong` the speedup on the others;
    `by_dtype` that by dtype. `tried` counts programs that the search itself came to. `call` is how the operator is
    called from Python (empty: the run does not tell), `judge_version` that of the judge that measured what is shown.
    """

    operator: str
    device: str
    state: State
    program: str | None = None
    language: str = ""
    written: str = ""
    is_start: bool = False
    evaluation: int = 0
    speedup: float | None = None
    interval: Interval | None = None
    worst: float | None = None
    worst_on: str = ""
    worst_holdout: float | None = None
    worst_holdout_on: str = ""
    roofline: float | None = None
    holdout: float | None = None
    holdout_interval: Interval | None = None
    found: float | None = None
    plain: float | None = None
    plain_program: str = ""
    unmeasured: tuple[str, ...] = ()
    where_none_is_wrong: float | None = None
    wrong_on: tuple[str, ...] = ()
    by_dtype: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    diagnosis: str = ""
    sandbox: str = ""
    workloads: tuple[WorkloadFinding, ...] = ()
    baselines: Mapping[str, float] = field(default_factory=dict)
    call: str = ""
    judge_version: str = ""
    candidates: tuple[Candidate, ...] = ()
    steps: tuple[Step, ...] = ()
    ancestors: tuple[str, ...] = ()
    judged: int = 0
    scored: int = 0
    tried: int = 0
    starts: tuple[Start, ...] = ()
    rejects: tuple[Reject, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def claim(self) -> str:
        told = ", ".join(f"{w.name} ({w.speedup:.2f}x)" for w in self.losses)
        return f"{CLAIMS[self.state]}{f'; but slower on {told}' if told and self.state == 'faster' else ''}"

    @property
    def losses(self) -> tuple[WorkloadFinding, ...]:
        """Workloads on which the program loses for sure."""
        return tuple(w for w in self.workloads if w.is_surely_slower)

    @property
    def over_plain(self) -> float | None:
        """How much faster than the plain program's first look; None if it is that, or there is none.

        As confirmed where it is: a winner's first look flatters it.
        """
        is_other = self.plain and self.plain_program != self.program
        return self.speedup / self.plain if is_other and self.speedup and self.plain else None

    @property
    def plain_told(self) -> str:
        """The same as words."""
        if self.program is not None and self.program == self.plain_program:
            return "it is the plain program"
        if self.over_plain is None:
            return f"no plain {self.language} program was scored" if self.program else ""
        return f"{self.over_plain:.2f}x over the plain {self.language} program"

    @property
    def slower_on(self) -> tuple[str, ...]:
        """Workloads on which the program loses, for sure or not."""
        return tuple(w.name for w in self.workloads if w.speedup < 1)

    @property
    def undecided(self) -> tuple[str, ...]:
        """Workloads on which it came out faster, but not for sure."""
        return tuple(w.name for w in self.workloads if w.speedup >= 1 and w.interval[0] <= 1)

    @property
    def slower_told(self) -> str:
        """The same as words: a workload without a measurement is not one that was won."""
        if self.program is None:
            return ""
        told = ", ".join(self.slower_on)
        if not self.unmeasured:
            return (told or "none") + (f"; not sure on {', '.join(self.undecided)}" if self.undecided else "")
        has_holdout = any(w.role == "holdout" for w in self.workloads)
        missing = ", ".join(self.unmeasured) if has_holdout else "holdout"
        return f"{told or 'no search workload'}; {missing} not measured"


def finding_of(history: History, search: SearchHistory) -> Finding:
    """What one search has come to."""
    judged = [entry for entry in search.entries.values() if entry.outcome in ("Scored", "Rejected")]
    counts = Counter(entry.outcome for entry in judged if not entry.reused)
    facts: dict[str, Any] = {
        "judged": counts.total(),
        "scored": counts["Scored"],
        "rejects": rejects(judged),
        "tried": tried(search.entries.values()),
        "starts": starts(search),
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
    plain = plain_of(search.entries.values(), best)
    cleared, wrong_on = where_none_is_wrong(measurements, search.dropped)
    measured = {m.workload for m in measurements}
    return {
        "state": _state(fitness.interval, is_confirmed=confirmation is not None),
        "program": best.id,
        "language": str(best.record["language"]),
        "written": written(best),
        "is_start": is_start(best),
        "evaluation": best.number,
        "speedup": fitness.speedup,
        "interval": fitness.interval,
        "worst": fitness.worst,
        "worst_on": _worst_on([m for m in measurements if m.role == "search"] or measurements),
        "worst_holdout": held and held.worst,
        "worst_holdout_on": _worst_on(holdout),
        "roofline": fitness.roofline,
        "holdout": held and held.speedup,
        "holdout_interval": held and held.interval,
        "found": best.speedup,
        "plain": plain.speedup if plain else None,
        "plain_program": plain.id if plain else "",
        "unmeasured": tuple(name for name in search.times_us if name not in measured),
        "where_none_is_wrong": cleared,
        "wrong_on": wrong_on,
        "by_dtype": by_dtype(measurements, search.workloads),
        "reason": confirmation.reason if confirmation else _why_unconfirmed(search),
        "diagnosis": diagnosis,
        "sandbox": sandbox,
        "workloads": tuple(_workload(m, search) for m in measurements),
        "baselines": _baselines(search, measurements),
        "call": search.call,
        "judge_version": str(confirmation.judgement["key"]["judge_version"]) if confirmation else "",
        "candidates": candidates(search),
        "steps": steps,
        "ancestors": ancestors,
    }


def _worst_on(measurements: Sequence[Measurement]) -> str:
    return min(measurements, key=lambda m: m.speedup).workload if measurements else ""


def _about(facts: Mapping[str, Any]) -> str:
    """`batch 256, max_length 512, dim 128; bfloat16; offsets int32; lengths tritonbench_50`.

    Offsets and lengths are of jagged operators; other workloads have them, too, and do not use them.
    """
    if not facts:
        return ""
    told = [", ".join(f"{name} {size}" for name, size in facts["sizes"].items()), facts["dtype"]]
    if "max_length" in facts["sizes"]:
        told += [f"offsets {facts['index_dtype']}", f"lengths {facts['lengths']}"]
    usual = {"values": "normal", "layout": "contiguous"}
    told += [f"{name} {facts[name]}" for name, value in usual.items() if facts[name] != value]
    return "; ".join(map(str, told))


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
        _about(search.workloads.get(m.workload, {})),
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
