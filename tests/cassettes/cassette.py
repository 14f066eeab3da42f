"""Cassettes: what a mutator was asked in a run, what it answered, and what the judge said. Replayable.

    python tests/cassettes/cassette.py record RUN_FOLDER NAME          # from a run with proposer=mailbox or llm
    python tests/cassettes/cassette.py replay NAME [--operator O]      # judge its programs again, on this machine

A cassette is `NAME.jsonl.xz` beside this file: a line for each request, in the order in which verdicts came. It holds
the request and every reply word for word, the program that came of it, its parents, and a short verdict.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kevolve.events import read_events
from kevolve.population import read_text
from kevolve.program import Program

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Exchange:
    """One request, all replies to it, and what came of the last. `verdict` is a speedup, or where it was rejected."""

    number: int
    operator: str
    language: str
    kind: str
    request: str
    replies: tuple[str, ...]
    program: str
    parents: tuple[str, ...]
    source: str
    verdict: str


def exchanges(run: Path) -> Iterator[Exchange]:
    """Those whose programs were judged. A starting program has no request."""
    proposed: dict[str, dict[str, Any]] = {}
    calls: dict[int, list[dict[str, Any]]] = {}
    for event in read_events(run / "events.jsonl"):
        if event.kind == "called":
            calls.setdefault(event.data["asked"], []).append(event.data["call"])
        elif event.kind == "proposed" and event.data.get("program"):
            proposed[event.data["program"]["id"]] = event.data["program"]
        elif event.kind == "judged":
            yield _exchange(run, event.data, proposed[event.data["program"]], calls.get(event.data["asked"], []))


def _exchange(run: Path, judged: dict[str, Any], program: dict[str, Any], calls: list[dict[str, Any]]) -> Exchange:
    return Exchange(
        judged["asked"] or 0,
        judged["operator"],
        program["language"],
        calls[0]["purpose"] if calls else "start",
        read_text(run, calls[0]["prompt"]) if calls else "",
        tuple(read_text(run, call["reply"]) for call in calls),
        program["id"],
        tuple(program["parents"]),
        read_text(run, program["source"]),
        _in_short(judged["judgement"]["verdict"]),
    )


def _in_short(verdict: dict[str, Any]) -> str:
    if verdict["verdict"] == "Scored":
        return f"{verdict['fitness']['speedup']:.3f}x"
    return f"{verdict['verdict']} {verdict.get('stage', verdict.get('kind', ''))}: {verdict['reason']}"


def write(path: Path, cassette: Iterator[Exchange]) -> None:
    with lzma.open(path, "wt", encoding="utf-8") as file:
        for exchange in cassette:
            file.write(json.dumps(asdict(exchange)) + "\n")


def read(path: Path) -> list[Exchange]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [
        Exchange(**{**line, "replies": tuple(line["replies"]), "parents": tuple(line["parents"])}) for line in lines
    ]


def replay(name: str, operators: list[str]) -> None:
    """Judge every program of a cassette as a first look does, in order, and print the best so far."""
    from kevolve.config import JudgeConfig
    from kevolve.devices.cpu import Cpu
    from kevolve.judge.judge import Judge
    from kevolve.judge.lease import Survey
    from kevolve.languages.language import Built
    from kevolve.verdict import Scored

    if not (path := FOLDER / f"{name}.jsonl.xz").exists():
        known = ", ".join(sorted(one.name.split(".")[0] for one in FOLDER.glob("*.jsonl.xz")))
        sys.exit(f"{name}: there is no such cassette. Type one of: {known}")
    judge = Judge(Cpu(), JudgeConfig())
    best: dict[str, float] = {}
    surveys: dict[str, Survey] = {}
    for exchange in read(path):
        if operators and exchange.operator not in operators:
            continue
        if exchange.operator not in surveys:
            survey = judge.survey(exchange.operator, 0)
            assert isinstance(survey, Survey), survey
            surveys[exchange.operator] = survey
        program = Program(exchange.operator, exchange.language, exchange.source, exchange.parents)
        verdict = built = judge.prepare(program)
        if isinstance(built, Built):
            to_beat = best.get(exchange.operator, 0.0)
            survey = surveys[exchange.operator]
            verdict = judge.measure(program, built, survey, exchange.number, to_beat=to_beat).verdict
        if isinstance(verdict, Scored):
            best[exchange.operator] = max(best.get(exchange.operator, 0.0), verdict.fitness.speedup)
            said = f"{verdict.fitness.speedup:.3f}x"
        else:
            said = str(verdict)
        best_so_far = best.get(exchange.operator, 0.0)
        print(f"{exchange.operator} {exchange.number}: then {exchange.verdict}, now {said}, best {best_so_far:.3f}x")
    judge.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "replay"])
    parser.add_argument("words", nargs="+")
    parser.add_argument("--operator", nargs="+", default=[])
    arguments = parser.parse_args()
    if arguments.what == "record":
        run, name = arguments.words
        write(FOLDER / f"{name}.jsonl.xz", exchanges(Path(run)))
    else:
        replay(arguments.words[0], arguments.operator)


if __name__ == "__main__":
    main()
