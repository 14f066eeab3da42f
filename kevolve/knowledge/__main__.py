"""`python -m kevolve.knowledge QUERY`: the documents a proposer would be given, and why; and the lessons of runs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from kevolve.config import Config
from kevolve.errors import UsageError, nearest
from kevolve.knowledge.learned import Lesson, delete_lesson, read_lessons
from kevolve.knowledge.retrieval import CHARACTERS, Library, Need, Picked
from kevolve.knowledge.vocabulary import CONCERNS

DONE, WRONG, FAULT = 0, 2, 4
FAMILIES = {"cuda": "nvidia", "rocm": "amd"}  # what the keys of a device's chips begin with, if not with its name


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="kevolve knowledge",
        description="Show the documents that a proposer would be given, best first, and why each was picked.",
        epilog=f"concerns: {', '.join(CONCERNS)}. Exit status: 0 shown, 2 wrong command, 4 a file cannot be changed",
    )
    made.add_argument("query", nargs="*", metavar="QUERY", help="any words: a verdict's reason, a compiler's error")
    made.add_argument(
        "--device",
        default="auto",
        metavar="D",
        help="a device key, the beginning of one, or a device's name (default: what is here)",
    )
    made.add_argument("--language", default="", metavar="L", help="only documents for this language")
    made.add_argument("--operator", default="", metavar="O", help="what the program computes")
    made.add_argument(
        "--concern", action="append", default=[], metavar="C", help="what is the matter; may be given again"
    )
    made.add_argument("--characters", type=int, default=CHARACTERS, metavar="N", help="room for text (%(default)s)")
    made.add_argument("--names", action="store_true", help="names and reasons without the text")
    made.add_argument("--json", action="store_true", help="the same for programs")
    made.add_argument("--lessons", action="store_true", help="list what runs have learned")
    made.add_argument("--delete", metavar="ID", help="delete a lesson")
    made.add_argument(
        "--learned", default=Config().knowledge.learned, metavar="DIR", help="where lessons are (%(default)s)"
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Show, list or delete; returns the exit status."""
    given = parser().parse_args(arguments)
    try:
        if given.delete is not None:
            return _delete(given)
        if given.lessons:
            return _lessons(given)
        return _query(given)
    except UsageError as error:
        print(f"kevolve: {error}", file=sys.stderr)
        return WRONG
    except BrokenPipeError:  # `| head` has seen enough
        sys.stdout = None
        return DONE
    except OSError as error:
        print(f"kevolve: {error.filename or given.learned}: {error.strerror or error}.", file=sys.stderr)
        return FAULT


def _query(given: argparse.Namespace) -> int:
    need = _need(given)
    picked = Library.open(Path(given.learned)).pick(need, given.characters)
    if given.json:
        print(json.dumps([_record(one) for one in picked], indent=1))
        return DONE
    if not picked:
        print(f"No document is about this for {need.device}. knowledge/index.md lists what there is.")
    for one in picked:
        print(f"== {one.document.name}: {one.document.title}\n   {one.because}")
        if not given.names:
            print(f"\n{one.text}")
    return DONE


def _need(given: argparse.Namespace) -> Need:
    for concern in given.concern:
        if concern not in CONCERNS:
            raise UsageError(
                f"--concern {concern}: there is none of that name.{nearest(concern, CONCERNS)} See --help."
            )
    if not given.query and not given.concern and not given.operator:
        raise UsageError("nothing to look for. Type some words, --concern C or --operator O; --help tells more.")
    if given.characters < 1:
        raise UsageError(f"--characters {given.characters}: type a number greater than 0.")
    return Need(device_key(given.device), given.language, given.operator, tuple(given.concern), " ".join(given.query))


def device_key(name: str) -> str:
    """The key that documents know a device by: the one here, if `name` is a device's name, or else `name` itself."""
    from kevolve.devices.registry import device_names, find_devices

    if name != "auto" and name not in device_names():
        return name
    try:
        return find_devices(name)[0].key
    except UsageError:
        return "" if name == "auto" else FAMILIES.get(name, name)


def _record(picked: Picked) -> dict[str, object]:
    document = picked.document
    return {"name": document.name, "title": document.title, "because": picked.because, "text": picked.text}


def _lessons(given: argparse.Namespace) -> int:
    chosen = [one for one in read_lessons(Path(given.learned)) if given.operator in ("", one.operator)]
    if given.json:
        print(json.dumps([_lesson_record(lesson) for lesson in chosen], indent=1))
        return DONE
    if not chosen:
        print(f"There are no lessons in {given.learned} yet. Runs write some when they end.")
    for lesson in chosen:
        print(f"{lesson.id}  {lesson.standing:<8}{lesson.title}  ({lesson.device})")
        for one in lesson.evidence:
            print(f"          {one.date}  {one.run}  {one.outcome}: {one.says}")
    if chosen:
        print("Delete one with: python -m kevolve.knowledge --delete ID")
    return DONE


def _lesson_record(lesson: Lesson) -> dict[str, object]:
    plain = {key: value for key, value in vars(lesson).items() if key != "evidence"}
    return {"id": lesson.id, "standing": lesson.standing, **plain, "evidence": [e.as_record() for e in lesson.evidence]}


def _delete(given: argparse.Namespace) -> int:
    lesson = delete_lesson(Path(given.learned), given.delete)
    print(f"{lesson.id} is deleted: {lesson.title}")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
