"""Proposers by name."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

from kevolve.config import ProposerConfig
from kevolve.errors import UsageError
from kevolve.propose import registry
from kevolve.propose.genetic import Genetic


def test_the_configured_structure_rate_reaches_the_genetic_proposer() -> None:
    made = registry.proposer("genetic", ProposerConfig(structure_rate=0.125))
    assert isinstance(made, Genetic)
    assert made.structure_rate == 0.125


def test_a_wrong_name_is_answered_with_the_nearest_and_all_there_are() -> None:
    with pytest.raises(UsageError, match=r"Did you mean genetic\?.*proposer=genetic"):
        registry.proposer("genetics", ProposerConfig())


def test_a_proposer_of_another_package_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = metadata.EntryPoint("other", "kevolve.propose.genetic:Genetic", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == registry.GROUP else [])
    monkeypatch.setattr(
        Genetic, "__init__", lambda self, config: setattr(self, "structure_rate", config.structure_rate)
    )
    assert registry.proposer_names() == ("genetic", "grid", "llm", "mailbox", "other")
    made = registry.proposer("other", ProposerConfig(structure_rate=0.5))
    assert isinstance(made, Genetic)
    assert made.structure_rate == 0.5


def test_importing_the_genetic_proposer_loads_no_heavy_package() -> None:
    heavy = ("torch", "ray", "mlflow", "litellm")
    code = f"import sys, kevolve.propose.genetic; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
