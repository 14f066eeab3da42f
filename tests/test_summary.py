"""summary.json says what happened, from the events alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kevolve.events import Event
from kevolve.summary import Summary, summarise

PLACE = {"operator": "jagged_sum", "device": "cpu"}


class Story:
    """Events, one second apart."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = 100.0

    def add(self, kind: str, **data: Any) -> None:
        self.now += 1
        self.events.append(Event(len(self.events) + 1, self.now, kind, data, self.now - self.started))

    def open(self) -> None:
        config = {"experiment": "jagged_ops", "seed": 3, "proposer": {"name": "genetic"}, "policy": {"name": "islands"}}
        self.started = self.now - 4
        self.add("opened", config=config, environment={}, started=self.started)

    def propose(self, program: str) -> None:
        self.add("proposed", **PLACE, program={"id": program, "language": "cpp"}, tokens=10, cost_usd=0.5)

    def judge(self, program: str, verdict: dict[str, Any], *, reused: bool = False) -> None:
        self.add("judged", **PLACE, program=program, reused=reused, judgement={"verdict": verdict, "sandbox": "bwrap"})

    def confirm(self, program: str, verdict: dict[str, Any], *, champion: bool) -> None:
        self.add("confirmed", **PLACE, program=program, champion=champion, judgement={"verdict": verdict})

    @property
    def summary(self) -> Summary:
        return summarise("trial", self.events)


def scored(speedup: float) -> dict[str, Any]:
    interval = [speedup - 0.1, speedup + 0.1]
    measurement = {"workload": "main", "role": "search", "weight": 1.0, "baseline": "eager", "floor_us": 1.0}
    measurement |= {"baseline_us": 10.0, "us": 10 / speedup, "speedup": speedup, "interval": interval}
    fitness = {"speedup": speedup, "worst": speedup, "interval": interval, "roofline": 0.5}
    return {"verdict": "Scored", "fitness": fitness, "measurements": [measurement]}


REJECTED = {"verdict": "Rejected", "stage": "correctness", "reason": "wrong", "detail": ""}
FAULT = {"verdict": "Fault", "kind": "lost", "reason": "gone", "detail": ""}


@pytest.fixture
def story() -> Story:
    told = Story()
    told.open()
    told.add("surveyed", **PLACE, times_us={}, dropped={})
    for program in "abcd":
        told.propose(program)
    return told


def test_every_verdict_is_counted_once_and_as_what_it_is(story: Story) -> None:
    story.judge("a", scored(2.0))
    story.judge("b", REJECTED)
    story.judge("c", FAULT)
    story.judge("d", scored(9.0), reused=True)
    summary = story.summary
    assert (summary.judged, summary.scored, summary.reused, summary.faults) == (2, 1, 1, 1)
    assert summary.rejected == {"screen": 0, "build": 0, "correctness": 1, "timing": 0}
    assert (summary.tokens, summary.cost_usd, summary.sandbox) == (40, 2.0, "bwrap")


def test_the_best_is_unconfirmed_until_a_champion_is_and_then_has_the_confirmed_numbers(story: Story) -> None:
    story.judge("a", scored(2.0))
    story.judge("b", scored(3.0))
    story.judge("c", scored(2.5))
    best = story.summary.results[0].best
    assert best is not None
    assert (best.program, best.speedup, best.confirmed) == ("b", 3.0, False)
    story.confirm("b", REJECTED, champion=False)
    story.confirm("c", scored(2.2), champion=True)
    (result,) = story.summary.results
    assert result.best is not None
    assert (result.best.program, result.best.speedup, result.best.confirmed) == ("c", 2.2, True)
    assert result.workloads[0].speedup == 2.2


def test_a_search_without_a_scored_program_has_no_best(story: Story) -> None:
    story.judge("a", REJECTED)
    (result,) = story.summary.results
    assert result.best is None
    assert result.workloads == ()


def test_seconds_are_of_the_sessions_and_not_of_the_night_between_them(story: Story) -> None:
    first = story.summary.seconds
    assert first == 10
    story.now += 10_000
    story.open()
    story.add("closed", reason="evaluations")
    assert story.summary.seconds == first + 6


@pytest.mark.parametrize(
    ("reason", "stopped"),
    [("evaluations", "finished"), ("minutes", "finished"), ("interrupted", "interrupted"), ("faults", "faults")],
)
def test_how_it_ended_is_said(story: Story, reason: str, stopped: str) -> None:
    assert story.summary.stopped == "running"
    story.add("closed", reason=reason)
    assert story.summary.stopped == stopped


def test_the_file_has_the_documented_keys(story: Story) -> None:
    story.judge("a", scored(2.0))
    written = json.loads(story.summary.to_json())
    assert list(written) == [
        *["name", "experiment", "seed", "proposer", "policy", "seconds", "judged", "scored", "reused", "rejected"],
        *["faults", "sandbox", "tokens", "cost_usd", "models", "results", "stopped"],
    ]
    (result,) = written["results"]
    assert list(result) == ["operator", "device", "best", "workloads"]
    assert list(result["best"]) == [
        *["program", "language", "speedup", "interval", "worst_speedup", "roofline", "confirmed"]
    ]
    assert list(result["workloads"][0]) == ["name", "role", "baseline", "baseline_us", "us", "speedup"]
