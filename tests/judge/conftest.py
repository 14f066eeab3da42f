"""One judge for all tests of the judge: starting one costs seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kevolve.config import JudgeConfig
from kevolve.devices.cpu import Cpu
from kevolve.judge.judge import Judge
from kevolve.judge.lease import Survey
from kevolve.languages.language import Built
from kevolve.program import Program
from kevolve.verdict import Judgement, Verdict

SEEDS = Path(__file__).parents[2] / "populations" / "seeds"


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    made = Judge(Cpu(), JudgeConfig(run_seconds=20.0, max_pairs=6, confirm_pairs=6, memory_gib=1.0))
    yield made
    made.close()


@pytest.fixture(scope="session")
def survey(judge: Judge) -> Survey:
    """As if embedding_bag were the fastest everywhere: a real survey takes a minute and is tested by itself."""
    workloads = judge.operator("jagged_sum").workloads
    return Survey("jagged_sum", judge.device.key, {w.name: {"embedding_bag": 1.0} for w in workloads})


@pytest.fixture(scope="session")
def verdict_on(judge: Judge, survey: Survey) -> Callable[[str], Verdict]:
    """Judge a jagged_sum program given as text, all stages."""

    def judged(source: str) -> Verdict:
        program = Program("jagged_sum", "cpp", source)
        built = judge.prepare(program)
        if not isinstance(built, Built):
            return built
        return judge.measure(program, built, survey, seed=1).verdict

    return judged


@pytest.fixture(scope="session")
def plain() -> str:
    return (SEEDS / "jagged_sum" / "plain.cpp").read_text()


@pytest.fixture(scope="session")
def measured(judge: Judge, survey: Survey, plain: str) -> Judgement:
    program = Program("jagged_sum", "cpp", plain)
    built = judge.prepare(program)
    assert isinstance(built, Built)
    return judge.measure(program, built, survey, seed=3)
