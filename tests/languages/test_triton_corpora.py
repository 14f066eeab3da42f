"""Triton programs of the corpora are built for a GPU that is not here; tests/gpu/ judges them on one."""

from __future__ import annotations

import pytest
from test_triton_build import built

from kevolve.languages.language import Built
from tests.corpora import EXPLOITS, HONEST, Case, cases

ENDLESS = [case for case in cases(EXPLOITS, ["triton"]) if "build" in case.stages]


@pytest.mark.parametrize("case", cases(HONEST, ["triton"]), ids=lambda case: case.name)
def test_an_honest_program_is_built(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    made = built(case.program.source, monkeypatch, "main")
    assert isinstance(made, Built), made


@pytest.mark.parametrize("case", ENDLESS, ids=lambda case: case.name)
def test_a_build_without_an_end_is_ended(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    made = built(case.program.source, monkeypatch, "main", seconds=5.0)
    assert not isinstance(made, Built)
    assert not case.differs(made)
