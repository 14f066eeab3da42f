"""Everything here needs an NVIDIA GPU, and is skipped with the reason where there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kevolve.config import JudgeConfig
from kevolve.devices.cuda import Cuda
from kevolve.judge.choice import judge_of
from kevolve.judge.lease import Survey
from kevolve.languages.language import Built
from kevolve.paths import seeds_dir
from kevolve.program import Program
from kevolve.verdict import Fault, Judgement, Rejected
from tests.corpora import BASELINES

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not Cuda().present():
        for item in items:
            if item.path.is_relative_to(HERE):
                item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU and a PyTorch that is built for it"))


class Bench:
    """A judge on the GPU, and what it takes to judge a source text."""

    def __init__(self) -> None:
        settings = JudgeConfig(run_seconds=20.0, max_pairs=6, confirm_pairs=6, baselines="eager", build_seconds=90.0)
        self.judge = judge_of(Cuda(), settings)
        self.built: dict[str, Built | Rejected | Fault] = {}

    def build(self, programs: Sequence[Program]) -> None:
        """All of these, as many at a time as there are cores: most of the tests' time would go by building."""
        with ThreadPoolExecutor(os.cpu_count()) as builders:
            self.built |= zip((p.id for p in programs), builders.map(self.judge.prepare, programs), strict=True)

    def plain(self, operator: str, suffix: str = ".py") -> str:
        """The operator's plain starting program."""
        return (seeds_dir() / operator / f"plain{suffix}").read_text()

    def verdict(
        self, operator: str, source: str, *, language: str = "triton", seed: int = 0, confirm: bool = False
    ) -> Judgement:
        program = Program(operator, language, source)
        built = self.built.get(program.id) or self.judge.prepare(program)
        if not isinstance(built, Built):
            return Judgement(self.judge.key(program), built)
        # A real survey of eight operators takes minutes, and whom a program beats rarely matters here.
        workloads = [w for w in self.judge.operator(operator).workloads if w.role != "holdout"]
        survey = Survey(operator, self.judge.device.key, {w.name: {BASELINES[operator]: 1.0} for w in workloads})
        if confirm:
            found = self.judge.survey(operator, seed)
            assert isinstance(found, Survey), found
            survey = found
        return self.judge.measure(program, built, survey, seed, confirm=confirm)


@pytest.fixture(scope="session")
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench()
    chosen = [item.callspec.params.get("case") for item in request.session.items if hasattr(item, "callspec")]
    made.build([case.program for case in chosen if case is not None and "build" not in case.stages])
    yield made
    made.judge.close()
