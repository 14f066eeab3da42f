"""Everything here needs an NVIDIA GPU, and is skipped with the reason where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kevolve.config import JudgeConfig
from kevolve.devices.cuda import Cuda
from kevolve.judge.choice import judge_of
from kevolve.judge.lease import Survey
from kevolve.languages.language import Built
from kevolve.paths import seeds_dir
from kevolve.program import Program
from kevolve.verdict import Judgement

if not Cuda().present():
    collect_ignore_glob = ["test_*.py"]


class Bench:
    """A judge on the GPU, and what it takes to judge a source text."""

    def __init__(self) -> None:
        settings = JudgeConfig(run_seconds=20.0, max_pairs=6, confirm_pairs=6, baselines="eager", build_seconds=90.0)
        self.judge = judge_of(Cuda(), settings)

    def plain(self, operator: str, suffix: str = ".py") -> str:
        """The operator's plain starting program."""
        return (seeds_dir() / operator / f"plain{suffix}").read_text()

    def verdict(
        self, operator: str, source: str, *, language: str = "triton", seed: int = 0, confirm: bool = False
    ) -> Judgement:
        program = Program(operator, language, source)
        built = self.judge.prepare(program)
        if not isinstance(built, Built):
            return Judgement(self.judge.key(program), built)
        survey = self.judge.survey(operator, seed)
        assert isinstance(survey, Survey), survey
        return self.judge.measure(program, built, survey, seed, confirm=confirm)


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.judge.close()
