"""What a run found out is there for the next one, with its numbers, as long as it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kevolve import run
from kevolve.config import Config
from kevolve.events import Event
from kevolve.knowledge import Library, Need
from kevolve.knowledge.__main__ import main
from kevolve.knowledge.learned import read_lessons
from kevolve.knowledge.lessons import Lessons
from kevolve.summary import Summary
from kevolve.verdict import Fitness, Rejected, Scored, Verdict, to_json

DEVICE = "cpu-stub"
PLACE = {"operator": "jagged_sum", "device": DEVICE}


class Told:
    """A run, event by event."""

    def __init__(self, folder: Path, run: str = "mine"):
        self.notes: list[str] = []
        self.lessons = Lessons(folder, run, self.notes.append)

    def _event(self, kind: str, **data: Any) -> None:
        self.lessons.heard(Event(1, 0.0, kind, {**PLACE, **data}, 0.0))

    def program(
        self, id: str, verdict: Verdict, parents: tuple[str, ...] = (), edits: tuple[str, ...] = (), idea: str = ""
    ) -> None:
        origin = {
            "edits": list(edits),
            "idea": idea,
            "genome": {"parameters": {"jam@L2.rows": 4, "unroll@L1.count": 2}},
        }
        program = {"id": id, "language": "cpp", "parents": list(parents), "origin": origin}
        self._event("proposed", program=program)
        self._event("judged", program=id, judgement={"verdict": to_json(verdict)})

    def confirmed(self, id: str, verdict: Verdict) -> None:
        self._event("confirmed", program=id, champion=True, judgement={"verdict": to_json(verdict)})

    def end(self) -> None:
        self.lessons.closed(Summary())


def scored(speedup: float) -> Scored:
    return Scored(Fitness(speedup, speedup, (speedup * 0.95, speedup * 1.05), 0.5), ())


def a_gain(folder: Path, run: str = "mine", before: float = 1.0, after: float = 2.0) -> Told:
    told = Told(folder, run)
    told.program("plain", scored(before))
    told.program("child", scored(after), ("plain",), ("jam",))
    if after > before:
        told.confirmed("child", scored(after))
    told.end()
    return told


def test_an_edit_on_the_way_to_a_confirmed_champion_is_a_lesson_with_its_numbers(tmp_path: Path) -> None:
    told = a_gain(tmp_path)
    (lesson,) = read_lessons(tmp_path)
    assert (lesson.kind, lesson.subject, lesson.operator, lesson.device) == ("gain", "jam", "jagged_sum", DEVICE)
    assert lesson.evidence[0].programs == ("plain", "child")
    assert "from 1.00x (0.95 to 1.05) to 2.00x" in lesson.evidence[0].says
    assert "jam@L2.rows = 4" in lesson.advice
    assert "`jam` (run several iterations of a loop at once" in lesson.advice
    assert "unroll" not in lesson.advice
    assert "new lessons: 1" in told.notes[0]


def test_the_next_run_is_given_the_lesson_and_one_of_a_related_operator_too(tmp_path: Path) -> None:
    a_gain(tmp_path)
    library = Library.open(tmp_path)
    for operator, is_given in (("jagged_sum", True), ("jagged_mean", True), ("jagged_layer_norm", False)):
        names = [p.document.name for p in library.pick(Need(DEVICE, "cpp", operator, ("compute_bound",)), 100_000)]
        assert any(name.startswith("jagged_sum-gain-") for name in names) == is_given, operator


def test_the_idea_of_a_proposer_that_thinks_is_what_is_learned(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.program("plain", scored(1.0))
    told.program("child", scored(2.0), ("plain",), idea="keep the row\nin registers")
    told.confirmed("child", scored(2.0))
    told.end()
    (lesson,) = read_lessons(tmp_path)
    assert lesson.subject == "keep the row in registers"
    assert "keep the row in registers" in Library.open(tmp_path).pick(Need(DEVICE, words="registers row"))[0].text


def test_what_timing_does_not_show_or_nobody_confirmed_is_no_lesson(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.program("plain", scored(1.0))
    told.program("child", scored(1.06), ("plain",), ("jam",))
    told.confirmed("child", scored(1.06))
    told.end()
    unconfirmed = Told(tmp_path)
    unconfirmed.program("plain", scored(1.0))
    unconfirmed.program("child", scored(2.0), ("plain",), ("jam",))
    unconfirmed.end()
    assert read_lessons(tmp_path) == []
    assert told.notes == unconfirmed.notes == []


def test_a_rejection_that_recurs_is_a_lesson_that_names_the_edits(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.program("plain", scored(1.0))
    for n, workload in enumerate(("d7", "odd", "d1")):
        reason = f"wrong on {workload} (adversarial): out is further from the reference than rounding explains"
        told.program(f"bad{n}", Rejected("correctness", reason), ("plain",), ("strip_mine",))
    told.program("other", Rejected("build", "does not compile"), ("plain",), ("jam",))
    told.end()
    (lesson,) = read_lessons(tmp_path)
    assert (lesson.kind, lesson.concerns) == ("failure", ("wrong_values",))
    assert "`strip_mine`" in lesson.advice
    assert lesson.evidence[0].programs == ("bad0", "bad1", "bad2")


def test_a_lesson_that_a_later_run_contradicts_is_doubted_and_a_third_run_restores_it(tmp_path: Path) -> None:
    a_gain(tmp_path)
    told = a_gain(tmp_path, "second", before=2.0, after=1.0)
    (lesson,) = read_lessons(tmp_path)
    assert lesson.standing == "doubted"
    assert "now doubted: 1" in told.notes[0]
    need = Need(DEVICE, "cpp", "jagged_sum", ("compute_bound",))
    assert all(not p.document.lesson for p in Library.open(tmp_path).pick(need, 100_000))
    a_gain(tmp_path, "third")
    (lesson,) = read_lessons(tmp_path)
    assert lesson.standing == "stands"
    assert [one.outcome for one in lesson.evidence] == ["for", "against", "for"]


def test_a_run_that_is_resumed_speaks_once(tmp_path: Path) -> None:
    a_gain(tmp_path)
    a_gain(tmp_path, after=3.0)
    (lesson,) = read_lessons(tmp_path)
    assert len(lesson.evidence) == 1
    assert "3.00x" in lesson.evidence[0].says


def test_the_main_job_listens_for_lessons_unless_nobody_wants_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[list[Path]] = []

    def evolve(config: Config, listeners: list[object], began: float) -> Summary:
        folders.append([listener.folder for listener in listeners if isinstance(listener, Lessons)])
        return Summary()

    monkeypatch.setattr("kevolve.search.evolution.evolve", evolve)
    options = ["+experiment=quick", "name=x", "tracking=none", f"runs_dir={tmp_path}"]
    assert run.main([*options, f"knowledge.learned={tmp_path}/learned"]) == 0
    assert run.main([*options, "knowledge.learned=null"]) == 0
    assert folders == [[tmp_path / "learned"], []]


def test_lessons_can_be_listed_and_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_gain(tmp_path)
    assert main(["--lessons", "--learned", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    id = read_lessons(tmp_path)[0].id
    assert id in shown
    assert "jam made programs faster" in shown
    assert main(["--delete", id[:4], "--learned", str(tmp_path)]) == 0
    assert read_lessons(tmp_path) == []


def test_a_damaged_lesson_spoils_no_run_and_is_named(tmp_path: Path) -> None:
    a_gain(tmp_path)
    next(tmp_path.glob("*.md")).write_text("---\ntitle: broken\n---\n")
    told = a_gain(tmp_path, "second")
    assert "not kept" in told.notes[0]
    assert str(tmp_path) in told.notes[0]
