"""The search's tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def machines_are_mended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for a stub's trouble to pass."""
    monkeypatch.setattr("kevolve.search.judging.PAUSES", (0.0, 0.0))
