"""The corpora: programs that must not be scored (tests/exploits/) and programs that must be (tests/honest/).

One folder a language, one file a program. Its first comment lines say what it is, as `key: value`:

    class     which trick of the catalogue (exploits only; tests/exploits/README.md lists them all)
    operator  what the program claims to compute
    verdict   `Scored`, or `Rejected` and the stages that may find it out
    reason    what the reason must contain; alternatives are separated by |
    needs     the architecture or maker of the processor that it is written for, if not any
    promised  the sandbox tiers that hold it, if not all
    open      the known hole through which it slips: expected to fail until that is closed

and the next line what it does. `#include "parts/..."` is replaced by the part's text, as programs come in one piece.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from kevolve.config import JudgeConfig
from kevolve.devices.device import Device
from kevolve.judge.judge import Judge
from kevolve.judge.lease import Survey
from kevolve.languages.language import Built
from kevolve.languages.registry import language
from kevolve.program import Program
from kevolve.verdict import STAGES, Fault, Rejected, Scored, Verdict

EXPLOITS = Path(__file__).with_name("exploits")
HONEST = Path(__file__).with_name("honest")
KEYS = ("class", "operator", "verdict", "reason", "needs", "promised", "open")

# As if these were the fastest everywhere: a real survey takes minutes, and whom a program beats does not matter here.
BASELINES = {
    "jagged_sum": "embedding_bag",
    "jagged_mean": "embedding_bag",
    "jagged_softmax": "bag",
    "jagged_layer_norm": "bag",
    "jagged_dense_bmm": "padded",
    "jagged_to_padded_dense": "aten",
    "dense_to_jagged": "aten",
    "jagged_dense_elementwise_add": "aten",
}

_HEADER_LINE = re.compile(r"(?://|#) ([a-z]+): (.+)")
_PART = re.compile(r'^#include "(parts/[^"]+)"\n', re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """A program of a corpus and what its header says. ValueError says what is wrong with the header."""

    path: Path
    says: dict[str, str] = field(compare=False)

    @classmethod
    def read(cls, path: Path) -> Case:
        says: dict[str, str] = {}
        for line in path.read_text().splitlines():
            match = _HEADER_LINE.fullmatch(line)
            if match is None or match[1] not in KEYS:
                break
            says[match[1]] = match[2].strip()
        case = cls(path, says)
        case._complain()
        return case

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that may reject it; none for a program that must be scored."""
        return tuple(self.says["verdict"].split()[1:])

    @cached_property
    def program(self) -> Program:
        return Program(self.says["operator"], self.path.parent.name, self._whole(set()))

    def promised(self, tier: str) -> bool:
        """Does the verdict hold in this sandbox tier?"""
        return tier in self.says.get("promised", tier).split()

    def differs(self, verdict: Verdict) -> str:
        """Nothing if the verdict is the one that the header asks for, else what is different."""
        if isinstance(verdict, Scored):
            return "" if not self.stages else f"Scored, {verdict.fitness.speedup:.2f}x"
        if isinstance(verdict, Fault):
            return f"Fault ({verdict.kind}): {verdict.reason}"
        told = f"Rejected at {verdict.stage}: {verdict.reason} {verdict.detail}".strip()
        if verdict.stage not in self.stages:
            return told
        wanted = [words.strip() for words in self.says["reason"].split("|")]
        return "" if any(words in verdict.reason for words in wanted) else told

    def _whole(self, seen: set[str]) -> str:
        def part(match: re.Match[str]) -> str:
            if match[1] in seen:
                return ""
            seen.add(match[1])
            return _PART.sub(part, (self.path.parent / match[1]).read_text())

        return _PART.sub(part, self.path.read_text())

    def _complain(self) -> None:
        verdict, *stages = self.says.get("verdict", "").split() or [""]
        wanted = {"operator", "verdict"} | ({"class", "reason"} if verdict == "Rejected" else set())
        if missing := wanted - set(self.says):
            raise ValueError(f"{self.path}: its header lacks {', '.join(sorted(missing))}")
        if verdict not in ("Scored", "Rejected") or bool(stages) != (verdict == "Rejected") or set(stages) - {*STAGES}:
            raise ValueError(f"{self.path}: verdict: {self.says['verdict']}: Scored, or Rejected and its stages")


def cases(corpus: Path, languages: Iterable[str]) -> list[Case]:
    """The programs of a corpus in these languages that are written for this machine."""
    found = [
        Case.read(path) for name in languages for path in sorted((corpus / name).glob(f"*{language(name).suffix}"))
    ]
    here = {platform.machine(), *re.findall(r"^vendor_id\s*:\s*(\S+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)}
    return [case for case in found if set(case.says.get("needs", "").split()) <= here]


class Bench:
    """A judge for the corpora: few pairs, baselines that need no compiler, every program built once."""

    def __init__(self, device: Device, sandbox: str = "auto"):
        settings = JudgeConfig(sandbox=sandbox, run_seconds=20.0, max_pairs=6, confirm_pairs=6, memory_gib=1.0)
        self.judge = Judge(device, settings)
        self.built: dict[Path, Built | Rejected | Fault] = {}

    def build(self, wanted: Sequence[Case]) -> None:
        """All of these, as many at a time as there are cores. Nothing is timed meanwhile."""
        missing = [case for case in wanted if case.path not in self.built]
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            built = threads.map(lambda case: self.judge.prepare(case.program), missing)
            self.built.update(zip((case.path for case in missing), built, strict=True))

    def verdict(self, case: Case, seed: int) -> Verdict:
        """The judge's word on a program, all stages."""
        self.build([case])
        built = self.built[case.path]
        if not isinstance(built, Built):
            return built
        return self.judge.measure(case.program, built, self.survey(case.program.operator), seed).verdict

    def survey(self, operator: str) -> Survey:
        workloads = self.judge.operator(operator).workloads
        times = {workload.name: {BASELINES[operator]: 1.0} for workload in workloads}
        return Survey(operator, self.judge.device.key, times)

    def close(self) -> None:
        self.judge.close()
