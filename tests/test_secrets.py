"""Keys stay with the driver."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kevolve.config import ClusterConfig, Config
from kevolve.search.session import running
from kevolve.search.workers import RAY
from kevolve.secrets import hidden, scrubbed


def test_what_starts_with_the_session_does_not_inherit_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    inherited: list[str] = []

    @contextmanager
    def up(config: ClusterConfig) -> Iterator[None]:
        """In Ray's place: starts a process, as it does."""
        inherited.append(subprocess.run(["env"], capture_output=True, text=True, check=True).stdout)
        yield

    monkeypatch.setenv("PLANTED_API_KEY", "sk-planted")
    with running(replace(RAY, up=up), Config()):
        assert os.environ["PLANTED_API_KEY"] == "sk-planted", "the driver still has it"
    assert "PATH=" in inherited[0]
    assert "sk-planted" not in inherited[0]


def test_keys_are_back_after_they_were_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "x" * 20)
    with hidden():
        assert "SOME_SECRET" not in os.environ
    assert os.environ["SOME_SECRET"] == "x" * 20


def test_a_text_is_told_without_keys_and_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-0123456789")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    assert scrubbed("key sk-0123456789 in /home/me/x, /home/menu") == "key [SOME_API_KEY] in ~/x, /home/menu"
