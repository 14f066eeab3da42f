"""What a run teaches: a listener that writes lessons when the run ends.

A **gain** is an edit on the way to a confirmed champion whose child was surely faster than its parent: their intervals
do not touch. A **failure** is a rejection with the same words that `RECURS` different programs of a search met with. A
run in which the same edit was surely harmful more often than it helped, or in which nobody who made a failure's edits
met with it, speaks against the lesson.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kevolve.errors import UsageError
from kevolve.knowledge.learned import Evidence, Lesson, read_lessons, write_lesson
from kevolve.propose.genome import edits_of
from kevolve.search.listener import Listener
from kevolve.verdict import Fitness, Rejected, Scored, from_json

if TYPE_CHECKING:
    from kevolve.events import Event
    from kevolve.summary import Summary

RECURS = 3  # programs with the same rejection
MOST_GAINS = 3  # of a search, the greatest
ENOUGH_TRIES = 3  # of a failure's edits without the failure, to speak against it

_IDEA = 160  # characters

Place = tuple[str, str]  # operator, device


@dataclass(frozen=True)
class Step:
    """A program that was made of another, with what both came to. `gain` is how many times faster it is."""

    program: str
    parent: str
    edits: tuple[str, ...]
    before: Fitness
    after: Fitness

    @property
    def gain(self) -> float:
        return self.after.speedup / self.before.speedup

    @property
    def outcome(self) -> str:
        """for, against, or nothing for a difference that timing does not show."""
        if self.after.interval[0] > self.before.interval[1]:
            return "for"
        return "against" if self.after.interval[1] < self.before.interval[0] else ""


@dataclass
class Search:
    """What has been heard of one operator on one device."""

    programs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    fitness: dict[str, Fitness] = field(default_factory=dict)
    rejected: dict[str, Rejected] = field(default_factory=dict)
    champion: str | None = None
    confirmed: Fitness | None = None

    def edits(self, program: str) -> tuple[str, ...]:
        """What was done to its parent: named edits, or else the idea that a thinking proposer gave."""
        origin = self.programs[program]["origin"]
        ideas = [" ".join(str(origin["idea"]).split())[:_IDEA]] if origin.get("idea") else []
        return tuple(sorted(set(origin.get("edits", ())))) or tuple(ideas)

    def steps(self) -> Iterator[Step]:
        """Every scored program with edits, beside its best parent."""
        for program, after in self.fitness.items():
            parents = [one for one in self.programs[program]["parents"] if one in self.fitness]
            if parents and self.edits(program):
                parent = max(parents, key=lambda one: self.fitness[one].speedup)
                yield Step(program, parent, self.edits(program), self.fitness[parent], after)

    def ancestry(self) -> set[str]:
        """The champion and everything it descends from."""
        found: set[str] = set()
        todo = [self.champion] if self.champion is not None else []
        while todo:
            program = todo.pop()
            if program not in found and program in self.programs:
                found.add(program)
                todo += self.programs[program]["parents"]
        return found


class Lessons(Listener):
    """Hears a run called `run` and, when it is over, writes what it teaches to `folder`. `note` shows one line."""

    def __init__(self, folder: Path, run: str, note: Callable[[str], None]):
        self.folder = folder
        self.run = run
        self.note = note
        self.searches: dict[Place, Search] = {}
        self.date = f"{datetime.now(UTC):%Y-%m-%d}"

    def recalled(self, events: Iterable[Event]) -> None:
        for event in events:
            self.heard(event)

    def heard(self, event: Event) -> None:
        if event.kind not in ("proposed", "judged", "confirmed"):
            return
        data = event.data
        search = self.searches.setdefault((data["operator"], data["device"]), Search())
        if event.kind == "proposed":
            search.programs.setdefault(data["program"]["id"], data["program"])
            return
        verdict = from_json(data["judgement"]["verdict"])
        if event.kind == "judged":
            if isinstance(verdict, Scored):
                search.fitness[data["program"]] = verdict.fitness
            elif isinstance(verdict, Rejected):
                search.rejected[data["program"]] = verdict
        elif data["champion"] and isinstance(verdict, Scored):
            search.champion, search.confirmed = data["program"], verdict.fitness

    def closed(self, summary: Summary) -> None:
        try:
            self._write()
        except (UsageError, OSError) as error:
            self.note(f"knowledge: this run's lessons were not kept: {error}")

    def _write(self) -> None:
        known = {lesson.id: lesson for lesson in read_lessons(self.folder)}
        changed: dict[str, Lesson] = {}
        for place, search in self.searches.items():
            for lesson, said in (*self._learned(place, search), *self._reviewed(place, search, known.values())):
                if lesson.id not in changed:
                    changed[lesson.id] = known.get(lesson.id, lesson).heard(said)
        for lesson in changed.values():
            write_lesson(self.folder, lesson)
        if changed:
            doubted = sum(lesson.standing == "doubted" for lesson in changed.values())
            new = sum(id not in known for id in changed)
            self.note(
                f"knowledge: new lessons: {new}, heard again: {len(changed) - new}, now doubted: {doubted}"
                f" (python -m kevolve.knowledge --lessons)"
            )

    def _learned(self, place: Place, search: Search) -> Iterator[tuple[Lesson, Evidence]]:
        yield from self._gains(place, search)
        yield from self._failures(place, search)

    def _gains(self, place: Place, search: Search) -> Iterator[tuple[Lesson, Evidence]]:
        if search.confirmed is None or search.confirmed.interval[0] <= 1:
            return
        path = search.ancestry()
        steps = [
            one for one in search.steps() if one.program in path and one.outcome == "for" and one.after.speedup > 1
        ]
        for step in sorted(steps, key=lambda step: -step.gain)[:MOST_GAINS]:
            lesson = _gain(place, search.programs[step.program], step.edits)
            yield (
                lesson,
                self._said("for", (step.parent, step.program), f"{_numbers(step)}; champion {search.champion} has it"),
            )

    def _failures(self, place: Place, search: Search) -> Iterator[tuple[Lesson, Evidence]]:
        groups: dict[str, list[str]] = {}
        for program, verdict in search.rejected.items():
            groups.setdefault(f"{verdict.stage}: {_same(verdict.reason)}", []).append(program)
        for subject, programs in groups.items():
            if len(programs) >= RECURS:
                lesson = _failure(place, search, subject, programs)
                says = f"{len(programs)} programs, the first: {search.rejected[programs[0]].reason}"
                yield lesson, self._said("for", tuple(programs[:5]), says)

    def _reviewed(self, place: Place, search: Search, known: Iterable[Lesson]) -> Iterator[tuple[Lesson, Evidence]]:
        """What the run says against what was known of this operator and device."""
        steps = list(search.steps())
        for lesson in known:
            if (lesson.operator, lesson.device) != place:
                continue
            if lesson.kind == "gain":
                same = [step for step in steps if _named(step.edits) == lesson.subject]
                worse = [step for step in same if step.outcome == "against"]
                if len(worse) > sum(step.outcome == "for" for step in same):
                    yield lesson, self._said("against", (worse[0].parent, worse[0].program), _numbers(worse[0]))
            else:
                edits = set(re.findall(r"`(\w+(?:\.\w+)?)`", lesson.advice))
                fine = [step.program for step in steps if edits & set(step.edits)]
                again = any(f"{v.stage}: {_same(v.reason)}" == lesson.subject for v in search.rejected.values())
                if edits and len(fine) >= ENOUGH_TRIES and not again:
                    says = f"{len(fine)} programs with these edits were scored, none rejected so"
                    yield lesson, self._said("against", tuple(fine[:5]), says)

    def _said(self, outcome: str, programs: tuple[str, ...], says: str) -> Evidence:
        return Evidence(self.run, self.date, outcome, programs, says)


def _gain(place: Place, program: Mapping[str, Any], edits: tuple[str, ...]) -> Lesson:
    (operator, device), language = place, program["language"]
    parameters = program["origin"].get("genome", {}).get("parameters", {})
    names = {edit.partition(".")[0] for edit in edits}
    values = [f"{key} = {value}" for key, value in parameters.items() if key.partition("@")[0] in names]
    detail = f" Parameters there: {', '.join(values)}." if values else ""
    return Lesson(
        "gain",
        operator,
        device,
        language,
        _named(edits),
        f"{operator}: {_named(edits)} made programs faster",
        f"On the way to a confirmed champion of {operator}, this made a program surely faster: "
        f"{_listed(edits, language)}.{detail}",
        ("slow_than_baseline", "compute_bound", "memory_bound"),
    )


def _failure(place: Place, search: Search, subject: str, programs: list[str]) -> Lesson:
    operator, device = place
    first = search.rejected[programs[0]]
    language = search.programs[programs[0]]["language"]
    among = Counter(edit for program in programs for edit in search.edits(program))
    usual = [edit for edit, count in among.most_common(4) if count >= RECURS]
    blame = f" Most of them had just got {_listed(usual, language)}." if usual else ""
    return Lesson(
        "failure",
        operator,
        device,
        language,
        subject,
        f"{operator}: rejected again and again by {first.stage}",
        f'Programs of {operator} are rejected by {first.stage} with "{first.reason}".{blame} Not again as it was.',
        _concerns(first),
        (first.reason.partition(":")[0],),
    )


def _concerns(verdict: Rejected) -> tuple[str, ...]:
    by_stage = {"screen": "screen_rejected", "build": "compile_error", "correctness": "wrong_values"}
    if "SIG" in verdict.reason or "ended" in verdict.reason:
        return ("crash",)
    if "did not finish" in verdict.reason or "processor time" in verdict.reason:
        return ("timeout",)
    return (by_stage.get(verdict.stage, "nondeterministic"),)


def _named(edits: Iterable[str]) -> str:
    return " + ".join(edits)


def _listed(edits: Iterable[str], language: str) -> str:
    """Edits by name, with what they do, if it is known: whoever reads a lesson may not have made them."""
    known = edits_of(language)
    catalogue = known.EDITS if known is not None else {}
    told = ((edit, catalogue.get(edit.partition(".")[0])) for edit in edits)
    return ", ".join(f"`{edit}` ({found.summary})" if found is not None else f"`{edit}`" for edit, found in told)


def _numbers(step: Step) -> str:
    def shown(fitness: Fitness) -> str:
        return f"{fitness.speedup:.2f}x ({fitness.interval[0]:.2f} to {fitness.interval[1]:.2f})"

    return f"from {shown(step.before)} to {shown(step.after)}"


def _same(reason: str) -> str:
    """A reason without what differs from program to program: numbers, and the workload it happened on."""
    return re.sub(r"\d[\d.,e+-]*", "N", re.sub(r"\bon \w+", "on a workload", reason))[:120]
