"""A champion on disk: `<operator>/<device key>/` with the program and `record.json`, in a run or kept for good."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kevolve.durable import write_atomically
from kevolve.errors import UsageError
from kevolve.languages.registry import language
from kevolve.operators.custom.definition import Definition, kept
from kevolve.paths import conf_dir
from kevolve.program import Program
from kevolve.verdict import Fitness, Judgement, Scored, from_json, to_json


@dataclass(frozen=True)
class Champion:
    """One champion. `measured` is when, in UTC, if its record says so."""

    operator: str
    device: str
    run: str
    folder: Path
    is_kept: bool
    record: Mapping[str, Any]
    fitness: Fitness
    measured: datetime | None

    @property
    def program(self) -> str:
        return str(self.record["program"]["id"])

    def source(self) -> Program:
        """The program itself. UsageError if the file is missing or is not what the record is about."""
        about = self.record["program"]
        file = self.folder / f"program{language(about['language']).suffix}"
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: the champion cannot be read ({error}).") from None
        program = Program(self.operator, about["language"], text, tuple(about["parents"]), about["origin"])
        if program.id != self.program:
            raise UsageError(
                f"{file}: this is program {program.id}, and its record is about {self.program}.\n"
                f"  Restore the file, or judge it by itself: kevolve judge {file} --operator {self.operator}"
            )
        return program


def kept_champions(folder: Path) -> Iterator[Champion]:
    """The champions kept in `folder`, such as populations/champions. UsageError on a record that cannot be read."""
    for file in sorted(folder.glob("*/*/record.json")):
        yield _read(file, is_kept=True)


def run_champions(runs_dir: Path, run: str = "*") -> Iterator[Champion]:
    """The champions of runs, or of one. UsageError on a record that cannot be read."""
    for file in sorted(runs_dir.glob(f"{run}/champions/*/*/record.json")):
        yield _read(file, is_kept=False)


def keep(folder: Path, winner: Champion, told: Mapping[str, Any]) -> Path:
    """Make `winner` the kept champion, with what its comparison told; returns the folder it is in."""
    place = folder / winner.operator / winner.device
    program = winner.source()
    kept = place / f"program{language(program.language).suffix}"
    write_atomically(kept, program.source.encode())
    write_atomically(place / "record.json", (json.dumps({**winner.record, "kept": told}, indent=1) + "\n").encode())
    for other in place.glob("program.*"):
        if other != kept:
            other.unlink()
    return place


def own_operator(champion: Champion, runs_dir: Path) -> Definition | None:
    """The user's own operator that a champion computes, as its run keeps it; None if the operator is kevolve's.

    UsageError if the run's folder, which a kept champion knows by name only, is not there.
    """
    if (conf_dir() / "operator" / f"{champion.operator}.yaml").is_file():
        return None
    folder = runs_dir / champion.run
    definition = kept(folder, champion.operator)
    if definition is None:
        raise UsageError(
            f"{champion.operator} of {champion.run} is an operator of your own, and {folder} does not have its "
            "definition.\n  Type --runs-dir DIR with the folder that the run is in."
        )
    return definition


def judgement_json(judgement: Judgement) -> dict[str, Any]:
    """What a record says of one judgement."""
    return {"verdict": to_json(judgement.verdict), "sandbox": judgement.sandbox, "seed": judgement.seed} | {
        "toolchain": judgement.key.toolchain,
        "operator_version": judgement.key.operator_version,
        "judge_version": judgement.key.judge_version,
    }


def _read(file: Path, *, is_kept: bool) -> Champion:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        latest = record.get("kept", {})
        verdict = from_json((latest.get("champion") or record["confirmed"])["verdict"])
        moment = latest.get("measured") or record.get("measured")
        if moment is None and not is_kept:  # a run of an earlier version; a kept file may be a copy of any age
            moment = datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat()
        operator, device, run = record["operator"], record["device"], record["run"]
        assert isinstance(verdict, Scored)
        measured = datetime.fromisoformat(moment).astimezone(UTC) if moment else None
        return Champion(operator, device, run, file.parent, is_kept, record, verdict.fitness, measured)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        raise UsageError(
            f"{file}: not the record of a champion ({type(error).__name__}: {error}).\n"
            "  Restore it, or move its folder away."
        ) from None
