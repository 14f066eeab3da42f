"""Runs of the search with models behind a scripted server: real HTTP and litellm, and a judge that answers at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from scripted_server import Answer

if find_spec("litellm") is None:  # looked for and not imported: kevolve sets it up first
    pytest.skip("the extra `llm` is not installed", allow_module_level=True)

from kevolve.config import Budget, Config, ProposerConfig
from kevolve.events import Event, read_events
from kevolve.languages.language import Built
from kevolve.program import Program
from kevolve.search.evolution import evolve
from kevolve.search.proposing import proposing
from kevolve.search.workers import Workers
from kevolve.summary import Summary
from kevolve.verdict import Fitness, Measurement, Scored, Verdict
from tests.search.search_stubs import LOCAL, StubLease, config, share

MODEL = "openai/scripted"
HERE: Workers = replace(LOCAL, proposing=proposing)


def settings(base: str, **changes: Any) -> ProposerConfig:
    """The llm proposer at a server of our own, impatient."""
    usual: dict[str, Any] = {"models": [MODEL], "api_base": base, "retries": 0, "timeout_seconds": 5.0, "repairs": 0}
    return ProposerConfig(**{"name": "llm", "stall_seconds": 0.3, **usual, **changes})


def wanted(runs: Path, base: str, evaluations: int = 4, lanes: int = 1, **changes: Any) -> Config:
    """A small run with it. `tokens` and `cost_usd` are its budget."""
    money = {name: changes.pop(name) for name in ("tokens", "cost_usd") if name in changes}
    made = config(runs, evaluations=evaluations, lanes=lanes)
    return replace(made, proposer=settings(base, **changes), budget=Budget(evaluations, 5.0, **money))


def is_right(judged: Program) -> Verdict:
    """A judge's word; how fast depends on the text alone."""
    speedup = 1 + share(judged.source)
    measured = Measurement("main", "search", 1.0, "eager", 10.0, 10 / speedup, speedup, (speedup, speedup), 2.0)
    return Scored(Fitness.of([measured]), (measured,))


@dataclass
class Fair(StubLease):
    """Builds everything, and finds it right unless a script says otherwise."""

    script: Callable[[Program], Verdict | None] = is_right

    async def prepare(self, program: Program) -> Built:
        return Built(program.id, {}, program.operator, {})


def run(made: Config, lease: StubLease | None = None) -> Summary:
    return evolve(made, leases=[lease or Fair()], workers=HERE)


def events_of(made: Config, kind: str = "") -> list[Event]:
    """What the run has stored."""
    events = read_events(Path(made.runs_dir) / str(made.name) / "events.jsonl")
    return [event for event in events if kind in ("", event.kind)]


def calls_of(made: Config) -> list[dict[str, Any]]:
    return [event.data["call"] for event in events_of(made, "called")]


def program(number: int) -> str:
    """A whole program, other than those of other numbers."""
    return (
        '#include "kevolve.h"\n'
        'extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,\n'
        "                           int64_t batch, int64_t total, int64_t dim) {\n"
        f"    out[0] = {number};\n}}\n"
    )


def numbered(requests: list[dict[str, Any]]) -> Answer:
    """A new program at every request."""
    return Answer(f"Idea: number {len(requests)}\n```cpp\n{program(len(requests))}```")


def summary_of(made: Config) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(made.runs_dir) / str(made.name) / "summary.json").read_text())
    return found
