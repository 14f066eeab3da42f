"""Replies of a real model, kept with a person's word on each: could anybody make a program of it?

replies/replies.jsonl is what replies/make.py got from a small model. replies/labels.json names by their lines, from 0,
those that ended by themselves and that a person could use: `whole` programs (the entry point is there from its head to
its last brace), and `edit`s (every quote is in the program, once). All others are of no use to anybody.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from replies.make import Case

from kevolve.propose.replies import Reading, Unusable, read_reply

FOLDER = Path(__file__).parent / "replies"


@dataclass(frozen=True)
class Kept:
    """A reply, by its line. `label` is empty for one of no use."""

    line: int
    case: Case
    finish: str
    text: str
    label: str

    def read(self, finish: str | None = None) -> Reading | Unusable:
        """What is made of it; as if it had ended otherwise, with `finish`."""
        about = (self.case.source, self.case.language, self.case.operator)
        return read_reply(self.text, self.finish if finish is None else finish, *about)

    @property
    def meant(self) -> list[str]:
        """The lines that a program made of it must have, one after the other, whatever their indentation."""
        if self.label == "edit":
            new = self.text.split("=======\n", 1)[1]
            new = re.split(r"^(?:>>>>|```)", new, maxsplit=1, flags=re.MULTILINE)[0]
        else:
            ends = ":" if self.case.language == "triton" else "{"
            head = re.search(rf"\b{self.case.operator}\s*\([^;{{)]*\)[^;{{]*?{ends}", self.text)
            assert head is not None, self.line
            new = _to_its_end(self.text[head.end() :], self.case.language)
        return [line.strip() for line in new.split("\n") if line.strip()]

    def is_in(self, found: Reading | Unusable) -> bool:
        """Is `found` the program that is meant?"""
        source = found.source if isinstance(found, Reading) else ""
        lines = [line.strip() for line in source.split("\n") if line.strip()]
        size = len(self.meant)
        return any(lines[at : at + size] == self.meant for at in range(len(lines) - size + 1))


def _to_its_end(text: str, language: str) -> str:
    """The body of a function, to its closing brace or to the first line that is not indented."""
    if language == "triton":
        return re.split(r"^(?=\S)", text.lstrip("\n"), maxsplit=1, flags=re.MULTILINE)[0]
    depth = 1
    for at, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return text[:at]
    raise ValueError("a body without an end")


def kept_replies() -> Iterator[Kept]:
    """All of them, in order."""
    labels = json.loads((FOLDER / "labels.json").read_text())
    labelled = {line: label for label, lines in labels.items() for line in lines}
    for line, text in enumerate((FOLDER / "replies.jsonl").read_text(encoding="utf-8").splitlines()):
        row = json.loads(text)
        case = Case(*(row[name] for name in ("operator", "language", "style", "seed")))
        yield Kept(line, case, row["finish"], row["text"], labelled.get(line, ""))


@dataclass
class Tally:
    """How the parser did."""

    replies: int = 0
    usable: int = 0  # by a person
    recovered: int = 0
    mistaken: int = 0  # for a program, where there is none
    cut_off: int = 0


def tally() -> Tally:
    """Over all replies. Raises whatever the parser raises."""
    found = Tally()
    for reply in kept_replies():
        read = reply.read()
        reply.read("stop")  # as if it had ended here: harder, and only not to crash
        found.replies += 1
        found.cut_off += reply.finish == "length"
        found.usable += bool(reply.label)
        found.recovered += bool(reply.label) and reply.is_in(read)
        found.mistaken += not reply.label and isinstance(read, Reading)
    return found
