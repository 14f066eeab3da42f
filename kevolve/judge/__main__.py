"""`python -m kevolve.judge FILE --operator O` (or `--operator-file F`): one program's verdict, by itself.

Exit status: 0 Scored, 1 Rejected, 4 Fault, 2 the command is wrong. 3: nothing was found wrong with it, but the device
is not here, so it is unverified.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from kevolve.config import JudgeConfig
from kevolve.errors import UsageError, nearest

if TYPE_CHECKING:
    from kevolve.judge.lease import Survey
    from kevolve.program import Program
    from kevolve.verdict import Judgement

_STATUS = {"Scored": 0, "Rejected": 1, "Fault": 4}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="kevolve judge",
        description="Judge one program: is it right on every workload, and how fast against the fastest baseline?",
        epilog="exit status: 0 scored, 1 rejected, 3 unverified (the device is not here), 4 fault of the machine,"
        " 2 wrong command",
    )
    made.add_argument("file", metavar="FILE", help="the program's source, such as kernel.cpp")
    made.add_argument("--operator", metavar="O", help="the operator that it computes")
    made.add_argument("--operator-file", metavar="F", help="a Python file with an operator of your own")
    made.add_argument("--device", default="auto", metavar="D", help="the device to run on (default: the first here)")
    made.add_argument("--seed", type=int, default=0, metavar="S", help="decides the inputs (default 0)")
    made.add_argument("--sandbox", default="auto", metavar="TIER", help="auto, bwrap, landlock or process")
    made.add_argument("--json", action="store_true", help="print the judgement as JSON")
    return made


def main(argv: list[str] | None = None) -> int:
    """Judge FILE and print the verdict; returns the exit status."""
    arguments = parser().parse_args(argv)
    try:
        judgement, survey = _judge(arguments)
    except UsageError as error:
        print(f"kevolve: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        from kevolve.verdict import to_json

        print(json.dumps({**asdict(judgement), "verdict": to_json(judgement.verdict)}, indent=2))
    else:
        _print(judgement, survey)
    return 3 if _is_unverified(judgement) else _STATUS[type(judgement.verdict).__name__]


def _is_unverified(judgement: Judgement) -> bool:
    return getattr(judgement.verdict, "kind", "") == "unverified"


def _judge(arguments: argparse.Namespace) -> tuple[Judgement, Survey]:
    program = _read(Path(arguments.file), _operator(arguments))
    from kevolve.devices.registry import find_device_to_judge
    from kevolve.judge.choice import judge_of
    from kevolve.judge.lease import Survey
    from kevolve.languages.language import Built
    from kevolve.verdict import Fault, Judgement

    device = find_device_to_judge(arguments.device, program.language)
    judge = judge_of(device, JudgeConfig(sandbox=arguments.sandbox))
    none = Survey(program.operator, judge.device.key, {})
    try:
        built = judge.prepare(program)
        survey = judge.survey(program.operator, arguments.seed) if isinstance(built, Built) else none
        if isinstance(built, Built) and isinstance(survey, Survey):
            return judge.measure(program, built, survey, arguments.seed), survey
        verdict = survey if isinstance(survey, Fault) else built
        assert not isinstance(verdict, Built)
        return Judgement(judge.key(program), verdict, sandbox=judge.tier.name, seed=arguments.seed), none
    finally:
        judge.close()


def _operator(arguments: argparse.Namespace) -> str:
    """The operator's name; one of the user's own is known here from now on."""
    from kevolve.operators.registry import operator_names

    if arguments.operator_file is not None:
        from kevolve.operators.custom.definition import read_definition
        from kevolve.operators.custom.given import give

        definition = read_definition(Path(arguments.operator_file), arguments.operator)
        give([definition])
        return definition.name
    names = operator_names()
    if arguments.operator is None:
        raise UsageError(f"which operator? Type --operator O or --operator-file F. Operators: {', '.join(names)}.")
    if arguments.operator not in names:
        hint = nearest(arguments.operator, names)
        raise UsageError(f"no operator is called {arguments.operator}.{hint} Operators: {', '.join(names)}.")
    return str(arguments.operator)


def _read(path: Path, operator: str) -> Program:
    from kevolve.languages.registry import language_of
    from kevolve.program import Program

    try:
        source = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    return Program(operator, language_of(path.suffix).name, source)


def _print(judgement: Judgement, survey: Survey) -> None:
    from rich.console import Console
    from rich.table import Table

    from kevolve.verdict import Fault, Rejected, Scored

    console = Console()
    match judgement.verdict:
        case Scored(fitness=fitness, measurements=measurements, profile=profile):
            table = Table(
                "workload", "fastest baseline", "baseline us", "program us", "speedup", "95 % interval", "roofline"
            )
            for m in measurements:
                low, high = m.interval
                table.add_row(
                    m.workload, m.baseline, f"{m.baseline_us:.1f}", f"{m.us:.1f}", f"{m.speedup:.2f}x",
                    f"{low:.2f} to {high:.2f}", f"{m.roofline:.2f}",
                )  # fmt: skip
            console.print(table)
            for workload, wrong in survey.dropped.items():
                for baseline, reason in wrong.items():
                    console.print(f"baseline {baseline} does not count on {workload}: {reason}", markup=False)
            console.print(
                f"Scored: {fitness.speedup:.2f}x (worst {fitness.worst:.2f}x). {profile.get('diagnosis', '')}"
            )
        case Rejected(stage=stage, reason=reason, detail=detail):
            console.print(f"Rejected at {stage}: {reason}", markup=False)
            if detail:
                console.print(detail, markup=False)
        case Fault(kind="unverified", reason=reason):
            for name, fact in judgement.environment.items():
                if isinstance(fact, str):
                    console.print(f"{name}: {fact}", markup=False, highlight=False, soft_wrap=True)
            console.print(
                f"Unverified on the device, which is not here: {reason}. Nothing was timed.",
                markup=False,
                soft_wrap=True,
            )
        case Fault(kind=kind, reason=reason, detail=detail):
            console.print(f"Fault ({kind}): {reason} {detail}", markup=False)
    console.print(f"sandbox {judgement.sandbox}, device {judgement.key.device}, seed {judgement.seed}", style="dim")


if __name__ == "__main__":
    sys.exit(main())
