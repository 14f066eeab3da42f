"""Summary: what a run has come to, computed from its events and from nothing else. Its JSON is `summary.json`.

`judged` counts new verdicts on programs, starting programs included (`scored` plus `rejected`); `reused` counts
verdicts that were known already and `faults` judgements that came to no verdict. Confirmations count in neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from kevolve.events import Event
from kevolve.model_tally import ModelTallies, ModelTally
from kevolve.verdict import STAGES, Role, Scored, from_json

Stopped = Literal["running", "finished", "interrupted", "faults"]


@dataclass(frozen=True)
class Best:
    """The best program of a search. If `confirmed`, its numbers are the confirmation's, not those that made it best."""

    program: str
    language: str
    speedup: float
    interval: tuple[float, float]
    worst_speedup: float
    roofline: float
    confirmed: bool


@dataclass(frozen=True)
class WorkloadResult:
    """The best program on one workload."""

    name: str
    role: Role
    baseline: str
    baseline_us: float
    us: float
    speedup: float


@dataclass(frozen=True)
class Result:
    """One search: an operator on a device. `best` is None while nothing was Scored."""

    operator: str
    device: str
    best: Best | None = None
    workloads: tuple[WorkloadResult, ...] = ()


@dataclass(frozen=True)
class Summary:
    """A run, as in summary.json. `seconds` is what all its sessions took together."""

    name: str = ""
    experiment: str | None = None
    seed: int = 0
    proposer: str = ""
    policy: str = ""
    seconds: float = 0.0
    judged: int = 0
    scored: int = 0
    reused: int = 0
    rejected: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(STAGES, 0))
    faults: int = 0
    sandbox: str = ""
    tokens: int = 0
    cost_usd: float = 0.0
    models: Mapping[str, ModelTally] = field(default_factory=dict)
    results: tuple[Result, ...] = ()
    stopped: Stopped = "running"

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def summarise(name: str, events: Iterable[Event]) -> Summary:
    """The summary of the run called `name` after `events`."""
    tally = Tally(name)
    for event in events:
        tally.heard(event)
    return tally.summary()


class Tally:
    """A summary that grows with each event, at the same small cost however long the run is."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._config: Mapping[str, Any] = {}
        self._counts = {"judged": 0, "scored": 0, "reused": 0, "faults": 0, "tokens": 0}
        self._rejected: dict[str, int] = dict.fromkeys(STAGES, 0)
        self._cost_usd = 0.0
        self._sandbox = ""
        self._stopped: Stopped = "running"
        self._earlier_seconds = 0.0
        self._elapsed = 0.0
        self._languages: dict[str, str] = {}
        self._results: dict[tuple[str, str], Result] = {}
        self._models = ModelTallies()

    def heard(self, event: Event) -> None:
        if event.kind == "opened":
            self._open(event)
        self._models.heard(event)
        self._elapsed = event.elapsed
        match event.kind:
            case "surveyed":
                place = (event.data["operator"], event.data["device"])
                self._results.setdefault(place, Result(*place))
            case "called":
                call = event.data["call"]
                self._counts["tokens"] += call["prompt_tokens"] + call["reply_tokens"]
                self._cost_usd += call["cost_usd"] or 0.0
            case "proposed":
                self._counts["tokens"] += event.data["tokens"]
                self._cost_usd += event.data["cost_usd"]
                self._languages.setdefault(event.data["program"]["id"], event.data["program"]["language"])
            case "judged":
                self._judged(event.data)
            case "confirmed" if event.data["champion"]:
                self._lead(event.data, confirmed=True)
            case "closed":
                reason = event.data["reason"]
                self._stopped = reason if reason in ("interrupted", "faults") else "finished"

    @property
    def seconds(self) -> float:
        """What all sessions took, up to the last event."""
        return self._earlier_seconds + self._elapsed

    def summary(self) -> Summary:
        config = self._config
        return Summary(
            name=self._name,
            experiment=config.get("experiment"),
            seed=config.get("seed", 0),
            proposer=config.get("proposer", {}).get("name", ""),
            policy=config.get("policy", {}).get("name", ""),
            seconds=self.seconds,
            rejected=dict(self._rejected),
            sandbox=self._sandbox,
            cost_usd=self._cost_usd,
            models=deepcopy(self._models.of),
            results=tuple(self._results.values()),
            stopped=self._stopped,
            **self._counts,
        )

    def _open(self, event: Event) -> None:
        # A session that was killed ended with its last event: the time until the next one is nobody's.
        self._earlier_seconds = self.seconds
        self._config = event.data["config"]
        self._stopped = "running"

    def _judged(self, data: Mapping[str, Any]) -> None:
        verdict = data["judgement"]["verdict"]
        self._sandbox = data["judgement"]["sandbox"] or self._sandbox
        if data["reused"]:
            self._counts["reused"] += 1
            return
        match verdict["verdict"]:
            case "Scored":
                self._counts["judged"] += 1
                self._counts["scored"] += 1
                self._lead(data, confirmed=False)
            case "Rejected":
                self._counts["judged"] += 1
                self._rejected[verdict["stage"]] += 1
            case _:
                self._counts["faults"] += 1

    def _lead(self, data: Mapping[str, Any], *, confirmed: bool) -> None:
        """Take the program as the best of its search, unless what is there has the better claim."""
        place = (data["operator"], data["device"])
        leader = self._results.get(place, Result(*place)).best
        fitness = data["judgement"]["verdict"]["fitness"]
        if not confirmed and leader and (leader.confirmed or leader.speedup >= fitness["speedup"]):
            return
        self._results[place] = _result(data, self._languages[data["program"]], confirmed=confirmed)


def _result(data: Mapping[str, Any], language: str, *, confirmed: bool) -> Result:
    verdict = from_json(data["judgement"]["verdict"])
    assert isinstance(verdict, Scored)
    fitness = verdict.fitness
    best = Best(
        program=data["program"],
        language=language,
        speedup=fitness.speedup,
        interval=fitness.interval,
        worst_speedup=fitness.worst,
        roofline=fitness.roofline,
        confirmed=confirmed,
    )
    workloads = tuple(
        WorkloadResult(m.workload, m.role, m.baseline, m.baseline_us, m.us, m.speedup) for m in verdict.measurements
    )
    return Result(data["operator"], data["device"], best, workloads)
