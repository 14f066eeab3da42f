"""No correct program is turned away, however unusual the way in which it works."""

from __future__ import annotations

import pytest

from kevolve.devices.cpu import Cpu
from tests.corpora import HONEST, Bench, Case, cases


@pytest.mark.parametrize("case", cases(HONEST, Cpu.languages), ids=lambda case: case.name)
def test_an_honest_program_is_scored(case: Case, corpora: Bench) -> None:
    assert not case.differs(corpora.verdict(case, seed=1))
