"""Runs on recorded landscapes, and what is left of them when time is taken away."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from kevolve.config import Config
from kevolve.configuration import load_config
from kevolve.search.evolution import evolve
from kevolve.summary import Summary

TABLES = Path(__file__).parent.parent / "landscapes"
POLICIES = ("islands", "mcts", "greedy", "best_of_n", "sequential", "random")


def wanted(folder: Path, policy: str = "islands", *more: str) -> Config:
    """One lane on the deceptive landscape; islands migrate and are stirred often."""
    often = ["policy.migration_every=5", "policy.stagnant_after=3"] if policy == "islands" else []
    chosen = [f"policy={policy}", "judge=landscape", f"judge.landscape={TABLES}", "proposer=grid", "tracking=none"]
    fixed = ["operators=[deceptive]", "lanes=1", "name=trial", "budget.evaluations=12", "budget.minutes=5"]
    return load_config([*chosen, *fixed, *often, f"runs_dir={folder}", *more])


def played(config: Config) -> Summary:
    return evolve(config)


def log(config: Config) -> Path:
    return Path(config.runs_dir) / str(config.name) / "events.jsonl"


def timeless(lines: list[bytes]) -> list[bytes]:
    """Lines of a log without times and the checksums over them, and without where the run's folder is."""
    gone = rb'"(time|elapsed|started|runs_dir)":("[^"]*"|[0-9.e+-]+),|,"checksum":"[0-9a-f]+"'
    return [re.sub(gone, b"", line) for line in lines]


def story(lines: list[bytes]) -> list[Any]:
    """What happened, without times, numbers of lines, and where one session ended and the next began."""
    events = [json.loads(line) for line in lines]
    return [json.dumps((event["kind"], event["data"])) for event in events if event["kind"] != "opened"]
