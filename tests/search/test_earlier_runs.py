"""A new search starts from what earlier runs found, says so, and believes nothing of it unmeasured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from search_stubs import DEVICE, LOCAL, StubLease, StubProposer, config, events_of

from kevolve.config import Config, KnowledgeConfig
from kevolve.knowledge import Library, Need
from kevolve.knowledge.learned import read_lessons
from kevolve.knowledge.lessons import Lessons
from kevolve.program import Program
from kevolve.progress import Progress
from kevolve.propose.genome import Gene, Genome, derive
from kevolve.screen import describe
from kevolve.search.earlier import beginnings
from kevolve.search.evolution import evolve
from kevolve.search.lineage import Lineage
from kevolve.search.opening import starting_programs


def run(runs: Path, name: str, earlier: int = 2, **changes: object) -> Config:
    wanted = replace(config(runs, name, **changes), knowledge=KnowledgeConfig(earlier=earlier))
    evolve(wanted, leases=[StubLease()], proposer=StubProposer(), workers=LOCAL)
    return wanted


def starting(wanted: Config) -> list[dict[str, object]]:
    events = events_of(wanted)
    return [event.data["program"] for event in events if event.kind == "proposed" and event.data["asked"] is None]


def test_a_run_leaves_lessons_behind_that_the_next_one_is_given(tmp_path: Path) -> None:
    told: list[str] = []
    lessons = Lessons(tmp_path / "learned", "first", told.append)
    wanted = config(tmp_path, "first", evaluations=40)
    evolve(wanted, [lessons], leases=[StubLease()], proposer=StubProposer(), workers=LOCAL)
    found = read_lessons(tmp_path / "learned")
    assert {lesson.subject for lesson in found} <= {"unroll", "tile", "parallel", "correctness: row N is wrong"}
    assert any(lesson.kind == "gain" for lesson in found)
    assert f"new lessons: {len(found)}" in told[0]
    library = Library.open(tmp_path / "learned")
    picked = library.pick(Need(DEVICE, "cpp", "jagged_sum", ("slow_than_baseline",)), 100_000)
    assert {one.document.lesson["kind"] for one in picked if one.document.lesson} >= {"gain"}


@pytest.fixture
def first(tmp_path: Path) -> Config:
    return run(tmp_path, "first", evaluations=25)


def champion_of(wanted: Config) -> str:
    folder = Path(wanted.runs_dir) / str(wanted.name) / "champions" / "jagged_sum" / DEVICE
    return str(json.loads((folder / "record.json").read_text())["program"]["id"])


def test_the_champion_of_an_earlier_run_is_judged_afresh_and_told_to_the_islands(first: Config, tmp_path: Path) -> None:
    second = run(tmp_path, "second")
    begun = starting(second)
    assert [program["id"] for program in begun][-1] == champion_of(first)
    assert begun[-1]["parents"] == []
    judged = [e for e in events_of(second) if e.kind == "judged" and e.data["program"] == champion_of(first)]
    assert not judged[0].data["reused"]
    told = [e for e in events_of(second) if e.kind == "told" and e.data["program"] == champion_of(first)]
    assert len(told) == second.policy.islands


def test_the_screen_says_what_a_search_starts_from(first: Config, tmp_path: Path) -> None:
    second = run(tmp_path, "second")
    lines = [describe(event, Progress(), second) for event in events_of(second) if event.kind == "proposed"]
    (line,) = [line for line in lines if line]
    assert "starts from the champion of run first too" in line
    assert "judged afresh" in line


def test_none_are_taken_where_none_are_wanted(first: Config, tmp_path: Path) -> None:
    assert len(starting(run(tmp_path, "second", earlier=0))) == len(starting(first))


def test_a_resumed_run_keeps_what_it_started_from(first: Config, tmp_path: Path) -> None:
    second = run(tmp_path, "second", evaluations=3)
    before = starting(second)
    run(tmp_path, "third", evaluations=25)
    resumed = replace(second, resume=True, budget=replace(second.budget, evaluations=6))
    evolve(resumed, leases=[StubLease()], proposer=StubProposer(), workers=LOCAL)
    assert starting(resumed) == before


def test_a_damaged_record_of_an_earlier_run_stops_nobody(first: Config, tmp_path: Path) -> None:
    next((tmp_path / "first" / "champions").rglob("record.json")).write_text("{")
    assert len(starting(run(tmp_path, "second"))) == len(starting(first))


def test_what_made_a_related_operator_fast_is_tried_on_this_one(first: Config, tmp_path: Path) -> None:
    """The champion of jagged_sum becomes a genome on the plain jagged_mean."""
    plain = next(program for program in starting_programs("jagged_sum", StubLease()) if program.language == "cpp")
    genome = Genome(plain.id, (Gene("parallel", "L0"),), {"parallel@L0.schedule": "static"})
    derived = derive(genome, plain.source, "cpp")
    assert derived is not None
    record = next((tmp_path / "first" / "champions").rglob("record.json"))
    content = json.loads(record.read_text())
    better = Program("jagged_sum", "cpp", derived.text)
    content["program"] |= {"id": better.id, "origin": {"genome": derived.genome.to_json()}}
    record.write_text(json.dumps(content))
    wanted = replace(config(tmp_path, "second", operators=["jagged_mean"]), knowledge=KnowledgeConfig(earlier=1))
    begun = beginnings(wanted, Lineage(2, str), "jagged_mean", StubLease())  # type: ignore[arg-type]
    assert begun[-1].operator == "jagged_mean"
    assert "#pragma omp parallel for" in begun[-1].source
    assert begun[-1].origin["earlier"]["operator"] == "jagged_sum"  # type: ignore[index]
