"""The self-test: do the judge's promises hold on this machine, today? Asked at the start of every run.

Canaries are programs whose verdict is known: honest ones that must be scored at a speedup that is known too, and
cheats that must be rejected, each by one promise of the judge. They compute a small operator of their own, and are
built without the screen in front, so that what is behind it is put to the test. A language keeps its canaries in
`canaries/<language>/`; nothing of what is found is remembered.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from kevolve.devices.device import Device
from kevolve.errors import UsageError
from kevolve.judge.judge import Judge
from kevolve.judge.lease import Survey
from kevolve.judge.prepare import Scratch
from kevolve.languages.language import BuildError, Built
from kevolve.languages.registry import language
from kevolve.operators.custom.definition import Definition
from kevolve.operators.custom.given import give
from kevolve.operators.custom.operator import CustomOperator
from kevolve.operators.operator import Operator
from kevolve.program import Program
from kevolve.verdict import Fault, Rejected, Scored, Verdict

CANARIES = Path(__file__).parent / "canaries"
NAME = "judge_self_test"
TRIES = 5  # for a moment in which the machine had other work: faults, and speedups that are off
NEAR = 1.1  # a known speedup may be missed by a tenth, at the near end of its interval
SLOWER = 0.75  # what takes twice as long must be measured at less than this


@dataclass(frozen=True)
class Canary:
    """A program with its known verdict. `speedup` is 0 where it must not be scored."""

    name: str
    promise: str
    speedup: float
    source: str


@dataclass(frozen=True)
class Broken:
    """A promise that does not hold, as a canary has shown, and what it got."""

    canary: Canary
    verdict: Verdict

    def __str__(self) -> str:
        canary = self.canary
        wanted = f"scored at {canary.speedup:g}x" if canary.speedup else "rejected"
        return f'"{canary.promise}": {canary.name} must be {wanted} and was {_in_words(self.verdict)}'


def self_test(judge: Judge) -> list[Broken]:
    """Every promise that does not hold here; empty if all do. UsageError if the canaries cannot be built."""
    broken: list[Broken] = []
    with judge.lock:  # once for all: another run would have the device between two canaries
        for name in _languages(judge.device):
            broken += _test(judge, name)
    return broken


def has_canaries(device: Device) -> bool:
    """Is there a language of the device's that the self-test can put to the test?"""
    return bool(_languages(device))


def _languages(device: Device) -> list[str]:
    """Its languages that have canaries; none where the judge is another package's, whose promises are its own."""
    is_ours = type(device).judge is Device.judge
    return [name for name in device.languages if is_ours and (CANARIES / name).is_dir()]


def refusal(device: str, broken: list[Broken]) -> str:
    """Why there is no run, and what to type."""
    told = "".join(f"\n  {one}" for one in broken)
    return (
        f"the judge cannot be believed on this machine ({device}). What it promises and does not keep here:{told}\n"
        f"  {mend(broken)}, then type the command again."
        " judge.self_test=false goes on nonetheless, and every verdict says so."
    )


def mend(broken: list[Broken]) -> str:
    """What to do about it."""
    if all(one.canary.speedup and isinstance(one.verdict, Scored) for one in broken):
        return f"Stop what else runs here (load {os.getloadavg()[0]:.1f} in the last minute): timings are off"
    return "See what `python -m kevolve.doctor` says of the sandbox, and try another tier: judge.sandbox=TIER"


def canaries(language_name: str) -> list[Canary]:
    """Those of a language. The first lines of a file say what it is for: `promise: ...` and `speedup: ...`."""
    folder = CANARIES / language_name
    files = sorted(folder.glob(f"*{language(language_name).suffix}"))
    return [_read(file) for file in files]


def _read(file: Path) -> Canary:
    source = file.read_text()
    said = dict(re.findall(r"^\W+(promise|speedup): (.+)$", source, re.MULTILINE))
    return Canary(file.stem, said["promise"], float(said.get("speedup", 0)), source)


def _test(judge: Judge, language_name: str) -> Iterator[Broken]:
    """The canaries of one language, all in one binary that is entered at the one or the other."""
    operator, built = _ready(judge, language_name)
    timed = [workload.name for workload in operator.workloads if workload.role != "adversarial"]
    survey = Survey(NAME, judge.device.key, {name: {"itself": 1.0} for name in timed})
    for canary in canaries(language_name):
        program = Program(NAME, language_name, canary.source)
        verdict = _verdict(judge, canary, program, replace(built, entry=canary.name), survey)
        if not _is_as_known(canary, verdict):
            yield Broken(canary, verdict)


@cache
def _ready(judge: Judge, language_name: str) -> tuple[Operator, Built]:
    """The canaries' operator, known to the judge and its baseline process, and all canaries in one binary."""
    library = os.memfd_create(NAME)  # stays open: the baseline process may be started anew at any time
    operator = canary_operator(language_name, f"/proc/{os.getpid()}/fd/{library}")
    built = _build(judge, language_name, operator, joined(language_name, operator))
    (binary,) = built.binaries.values()
    os.write(library, binary)
    judge.operators[NAME] = operator
    judge.drop_baselines()
    # What is suspicious of one canary is not of all: none is looked at more closely than an innocent program.
    return operator, replace(built, facts={})


def joined(language_name: str, operator: Operator) -> str:
    """All canaries as one text. Triton's build compiles what one function launches: there that calls them all."""
    found = canaries(language_name)
    text = "\n".join(canary.source for canary in found)
    if language_name != "triton":
        return text
    arguments = ", ".join(argument.name for argument in operator.arguments)
    calls = "\n".join(f"    {canary.name}({arguments})" for canary in found)
    return f"{text}\ndef {NAME}({arguments}):\n{calls}\n"


def _verdict(judge: Judge, canary: Canary, program: Program, built: Built, survey: Survey) -> Verdict:
    """The first that is as it is known to be; of cheats the first that is no fault."""
    for _ in range(TRIES):
        verdict = judge.measure(program, built, survey, secrets.randbits(40)).verdict
        if _is_as_known(canary, verdict) or not (canary.speedup or isinstance(verdict, Fault)):
            break
    return verdict


def _is_as_known(canary: Canary, verdict: Verdict) -> bool:
    if not canary.speedup:
        return isinstance(verdict, Rejected)
    if not isinstance(verdict, Scored):
        return False
    low, high = verdict.fitness.interval
    is_near = low <= canary.speedup * NEAR and high >= canary.speedup / NEAR
    return is_near and (canary.speedup == 1 or verdict.fitness.speedup < SLOWER)


def canary_operator(language_name: str, library: str) -> Operator:
    """The canaries' own operator, known from now on to this process, and to a baseline process that it starts."""
    text = (CANARIES / language_name / "operator.py.txt").read_text()
    definition = Definition(NAME, "source", f"LIBRARY = {library!r}\n{text}".encode(), f"<{NAME}>")
    operator = CustomOperator(definition)
    give([replace(definition, facts=operator.facts)])
    return operator


def _build(judge: Judge, language_name: str, operator: Operator, source: str) -> Built:
    with tempfile.TemporaryDirectory(prefix="kevolve-self-test-") as scratch:
        confined = Scratch(judge.tier, Path(scratch).resolve(), judge.settings.build_seconds)
        program = Program(NAME, language_name, source)
        built = language(language_name).build(program, operator, judge.device.target, confined)
    if isinstance(built, BuildError):
        raise UsageError(
            f"the judge's self-test cannot be built with {judge.device.target.toolchain}: {built.reason}.\n"
            "  Mend the toolchain (see `python -m kevolve.doctor`), or type judge.self_test=false."
        )
    return built


def _in_words(verdict: Verdict) -> str:
    match verdict:
        case Scored(fitness=fitness):
            low, high = fitness.interval
            return f"scored at {fitness.speedup:.2f}x ({low:.2f} to {high:.2f})"
        case Rejected(stage=stage, reason=reason):
            return f"rejected by {stage}: {reason}"
        case Fault(kind=kind, reason=reason):
            return f"not judged, for a fault ({kind}): {reason}"
