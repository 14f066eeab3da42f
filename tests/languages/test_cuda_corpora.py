"""CUDA C++ programs of the corpora are built for a GPU that is not here; tests/gpu/ judges them on one."""

from __future__ import annotations

import pytest
from cuda_programs import built, needs_nvrtc

from kevolve.languages.language import Built
from kevolve.verdict import Rejected
from tests.corpora import EXPLOITS, HONEST, Case, cases

needs_nvrtc()

IMPATIENT_SECONDS = 5.0  # for builds that never end


@pytest.mark.parametrize("case", cases(HONEST, ["cuda"]), ids=lambda case: case.name)
def test_an_honest_program_is_built(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    made = built(case.program.source, monkeypatch, "main", "main_bfloat16", "main_float16")
    assert isinstance(made, Built), made


@pytest.mark.parametrize("case", cases(EXPLOITS, ["cuda"]), ids=lambda case: case.name)
def test_an_exploit_is_refused_where_its_text_or_artefact_shows_it(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = IMPATIENT_SECONDS if case.says["class"] == "H14 never ends" else 60.0
    made = built(case.program.source, monkeypatch, "main", "main_bfloat16", seconds=seconds)
    if {"screen", "build"} & set(case.stages):
        assert isinstance(made, Rejected)
        assert not case.differs(made)
    else:
        assert isinstance(made, Built), made
