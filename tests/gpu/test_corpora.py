"""The corpora for the GPU, on one: exploits are rejected with their reason, honest programs are scored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kevolve.devices.cuda import Cuda
from tests.corpora import EXPLOITS, HONEST, Case, cases

LANGUAGES = Cuda().languages
IMPATIENT_SECONDS = 10.0  # for builds that never end


@pytest.mark.parametrize("case", cases(EXPLOITS, LANGUAGES), ids=lambda case: case.name)
def test_an_exploit_is_rejected_and_told_why(case: Case, bench, monkeypatch):
    if "build" in case.stages:
        monkeypatch.setattr(bench.judge, "settings", replace(bench.judge.settings, build_seconds=IMPATIENT_SECONDS))
    verdict = bench.verdict(case.program.operator, case.program.source, language=case.program.language, seed=1).verdict
    assert not case.differs(verdict)


@pytest.mark.parametrize("case", cases(HONEST, LANGUAGES), ids=lambda case: case.name)
def test_an_honest_program_is_scored(case: Case, bench):
    verdict = bench.verdict(case.program.operator, case.program.source, language=case.program.language, seed=1).verdict
    assert not case.differs(verdict)
