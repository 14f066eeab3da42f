"""A real language model, if a very small one, writes edits of a real kernel: server, prompt, stream, tokens, parser and
judge all take part. It shows that they fit together, and nothing about how good any model is.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from llm_runs import HERE, calls_of, events_of, wanted
from this_machine import Here

from kevolve.config import PolicyConfig
from kevolve.devices.cpu import Cpu
from kevolve.errors import UsageError
from kevolve.events import Event
from kevolve.operators.custom.definition import read_definition
from kevolve.operators.custom.given import give
from kevolve.propose.llm import local
from kevolve.propose.llm.grammar import edits_of
from kevolve.search.evolution import evolve
from kevolve.search.listener import Listener
from tests.corpora import Bench

OPERATOR = """
import torch

def reference(x):
    return x.sum(-1)

def make_inputs(rng, rows, dim):
    return {"x": torch.randn(rows, dim, generator=rng)}

workloads = [dict(rows=300, dim=128), dict(rows=77, dim=33, role="adversarial")]
"""
PROGRAM = """#include "kevolve.h"

extern "C" void rows_summed(const VALUE *x, VALUE *out, int64_t rows, int64_t dim) {
    for (int64_t r = 0; r < rows; r++) {
        float sum = 0.0f;
        for (int64_t d = 0; d < dim; d++)
            sum += (float)x[r * dim + d];
        out[r] = sum;
    }
}
"""


@pytest.fixture
def server() -> Iterator[str]:
    """The address of the model's server."""
    try:
        local.model_file()
    except UsageError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "kevolve.propose.llm.local", "--port", "0", "--parallel", "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    file = tmp_path / "rows_summed.py"
    file.write_text(OPERATOR)
    file.with_suffix(".cpp").write_text(PROGRAM)
    give([read_definition(file)])
    bench = Bench(Cpu())
    yield Here(bench.judge)
    bench.close()


class UntilOneIsRight(Listener):
    """Ends the run when a child is right: which of a small model's children are, nobody can say beforehand."""

    interrupt: Callable[[], object]

    def heard(self, event: Event) -> None:
        is_child = event.kind == "judged" and event.data["asked"] is not None
        if is_child and event.data["judgement"]["verdict"]["verdict"] == "Scored":
            self.interrupt()
            self.interrupt()  # at once: the next call is not waited for


def test_a_small_model_held_by_a_grammar_writes_children_that_are_judged(
    tmp_path: Path, server: str, here: Here
) -> None:
    templates = tmp_path / "templates"
    templates.mkdir()
    # The model reads a hundred tokens a second.
    (templates / "request.txt").write_text("$parents\n$format")
    (templates / "system.txt").write_text("You make programs faster.")
    (templates / "format_edits.txt").write_text("Make it faster: change one line, by a SEARCH/REPLACE block.")
    made = wanted(
        tmp_path, server, evaluations=12, models=[local.MODEL], grammar=True, templates=str(templates),
        reply_tokens=256, temperature=0.8, timeout_seconds=120.0, stall_seconds=60.0,
    )  # fmt: skip
    policy = PolicyConfig(islands=1, population=4, drafts=0, draft_rate=0.0, crossover_rate=0.0, migration_every=0)
    made = replace(made, policy=policy, operators=["rows_summed"])
    listener = UntilOneIsRight()
    summary = evolve(
        made, [listener], leases=[here], workers=HERE, on_start=lambda stop: setattr(listener, "interrupt", stop)
    )
    calls = calls_of(made)
    assert {call["outcome"] for call in calls} <= {"program", "equal"}, "every edit applies"
    assert all(call["prompt_tokens"] > 100 and call["reply_tokens"] > 10 for call in calls), "as the server counts"
    judged = [event.data for event in events_of(made, "judged") if event.data["asked"] is not None]
    assert "Scored" in {data["judgement"]["verdict"]["verdict"] for data in judged}
    assert summary.models[local.MODEL].calls == len(calls)


def test_a_grammar_offers_the_lines_of_the_entry_point_and_nothing_for_a_program_without() -> None:
    grammar = edits_of(PROGRAM, "cpp", "rows_summed")
    assert "include" not in grammar
    assert "extern" not in grammar
    assert r'"    for (int64_t r = 0; r < rows; r++) {\n=======\n    " hint' in grammar
    assert r'"        float sum = 0.0f;\n=======\n" new' in grammar
    assert edits_of(PROGRAM, "cpp", "something_else") == ""
