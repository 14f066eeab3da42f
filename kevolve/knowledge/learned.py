"""Lessons on disk: one Markdown file each in the user's folder, a document like any other, with its evidence.

A file can be read, changed and deleted by hand. What says how it stands is in the front matter:

    lesson: {id: 3f2a9c01, kind: gain, subject: lane_tile, standing: stands}
    evidence: [{run: mine, date: 2026-11-30, outcome: for, programs: [..., ...], says: 1.02x to 1.80x}]

`kind` is gain (an edit that made programs faster) or failure (a rejection that keeps coming back). A lesson is
`doubted`, and picked no more, while more of its runs speak against it than for it, or as many and the last one does.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from kevolve.durable import write_atomically
from kevolve.errors import UsageError
from kevolve.knowledge.documents import Document, read_folder

STANDS, DOUBTED = "stands", "doubted"


@dataclass(frozen=True)
class Evidence:
    """What one run has to say of a lesson: for or against it, by which programs, in numbers."""

    run: str
    date: str
    outcome: str
    programs: tuple[str, ...]
    says: str

    def as_record(self) -> dict[str, Any]:
        return {**vars(self), "programs": list(self.programs)}


@dataclass(frozen=True)
class Lesson:
    """One finding about an operator on a device. `advice` is its text, `concerns` when it is of use."""

    kind: str
    operator: str
    device: str
    language: str
    subject: str
    title: str
    advice: str
    concerns: tuple[str, ...]
    symptoms: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = field(default=())

    @property
    def id(self) -> str:
        """The same finding has the same id in every run."""
        text = "\0".join((self.kind, self.operator, self.device, self.subject))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def standing(self) -> str:
        """What the runs say together."""
        balance = sum(1 if one.outcome == "for" else -1 for one in self.evidence)
        last_is_against = bool(self.evidence) and self.evidence[-1].outcome != "for"
        return DOUBTED if balance < 0 or (balance == 0 and last_is_against) else STANDS

    def heard(self, said: Evidence) -> Lesson:
        """The lesson with what a run says; a run that is resumed speaks once."""
        return replace(self, evidence=(*(one for one in self.evidence if one.run != said.run), said))


def lesson_of(document: Document) -> Lesson:
    """The lesson that a document of the user's folder holds. UsageError if it holds none."""
    try:
        evidence = tuple(
            Evidence(**{**one, "programs": tuple(one["programs"]), "date": str(one["date"])})
            for one in document.evidence
        )
        return Lesson(
            document.lesson["kind"],
            document.operators[0],
            document.devices[0],
            document.languages[0],
            document.lesson["subject"],
            document.title,
            document.text.partition("\n\nEvidence")[0].strip(),
            document.concerns,
            document.symptoms,
            evidence,
        )
    except (KeyError, IndexError, TypeError) as error:
        raise UsageError(f"{document.path}: not a lesson ({error}). Mend it, or delete the file.") from None


def read_lessons(folder: Path) -> list[Lesson]:
    """Every lesson of a folder. UsageError names a file that is not right."""
    return [lesson_of(document) for document in read_folder(folder, learned=True)] if folder.is_dir() else []


def write_lesson(folder: Path, lesson: Lesson) -> Path:
    """Store the lesson, in place of what was known of it."""
    front = {
        "title": lesson.title,
        "devices": [lesson.device],
        "languages": [lesson.language],
        "operators": [lesson.operator],
        "concerns": list(lesson.concerns),
        "symptoms": list(lesson.symptoms),
        "lesson": {"id": lesson.id, "kind": lesson.kind, "subject": lesson.subject, "standing": lesson.standing},
        "evidence": [one.as_record() for one in lesson.evidence],
    }
    said = "\n".join(
        f"- {one.date}, run {one.run}: {one.says} ({', '.join(one.programs)})"
        + ("" if one.outcome == "for" else ". Against it.")
        for one in lesson.evidence
    )
    head = yaml.safe_dump(front, sort_keys=False, width=1000, allow_unicode=True)
    path = folder / f"{lesson.operator}-{lesson.kind}-{lesson.id}.md"
    write_atomically(path, f"---\n{head}---\n{lesson.advice}\n\nEvidence\n{said}\n".encode())
    return path


def delete_lesson(folder: Path, id: str) -> Lesson:
    """Take a lesson away; its id may be cut short. UsageError if there is no such lesson, or more than one."""
    found = [
        (document, lesson_of(document)) for document in (read_folder(folder, learned=True) if folder.is_dir() else [])
    ]
    named = [(document, lesson) for document, lesson in found if lesson.id.startswith(id)]
    if len(named) != 1:
        listed = ", ".join(lesson.id for _, lesson in named or found) or "none"
        what = "no lesson has this id" if not named else "more than one lesson begins like this"
        raise UsageError(f"--delete {id}: {what}. Lessons in {folder}: {listed}.")
    document, lesson = named[0]
    document.path.unlink()
    return lesson
