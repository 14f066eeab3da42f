"""A conversation about a real kernel: a wrong draft is repaired from what the judge says, improved, and crossed with
another lineage, on this machine's compiler and judge. The replies are scripted: it shows that everything is connected,
and nothing about how good any model is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from llm_runs import HERE, events_of, wanted
from scripted_server import Answer, serving
from this_machine import Here

from kevolve.config import PolicyConfig
from kevolve.devices.cpu import Cpu
from kevolve.operators.custom.definition import read_definition
from kevolve.operators.custom.given import give
from kevolve.search.evolution import evolve
from tests.corpora import Bench

OPERATOR = """
import torch

def reference(x, scale):
    return (x * scale).sum(-1)

def make_inputs(rng, rows, dim):
    return {"x": torch.randn(rows, dim, generator=rng), "scale": torch.rand(dim, generator=rng)}

workloads = [dict(rows=300, dim=128), dict(rows=77, dim=33, role="adversarial")]
"""
LOOP = "    for (int64_t r = 0; r < rows; r++) {\n"
INNER = """        float sum = 0.0f;
        for (int64_t d = 0; d < dim; d++) {
            sum += (float)x[r * dim + d] * (float)scale[d];
        }
"""
PROGRAM = f"""#include "kevolve.h"

extern "C" void weighted_sum(const VALUE *x, const VALUE *scale, VALUE *out, int64_t rows, int64_t dim) {{
{LOOP}{INNER}        out[r] = sum;
    }}
}}
"""
PAIRS = """        float sum = 0.0f, other = 0.0f;
        for (int64_t d = 0; d + 1 < dim; d += 2) {
            sum += (float)x[r * dim + d] * (float)scale[d];
            other += (float)x[r * dim + d + 1] * (float)scale[d + 1];
        }
        sum += other;
"""
LAST = "        sum += other;\n"
MENDED = f"{LAST}        if (dim % 2) sum += (float)x[r * dim + dim - 1] * (float)scale[dim - 1];\n"
THREADS = f"    #pragma omp parallel for\n{LOOP}"


def change(idea: str, before: str, after: str) -> Answer:
    return Answer(f"Idea: {idea}\n\n```cpp\n<<<<<<< SEARCH\n{before}=======\n{after}>>>>>>> REPLACE\n```\nGood luck!")


def conversation(request: dict[str, Any], said: list[str]) -> Answer:
    """The scripted mutator: what a request asks for decides what it answers."""
    prompt = request["messages"][-1]["content"]
    said.append(prompt)
    has_pairs, has_threads = "other" in _first(prompt), "pragma omp" in _first(prompt)
    if "was rejected" in prompt:
        return change("an odd row has one more", LAST, MENDED)
    if len(said) == 1:
        return change("two sums at a time", INNER, PAIRS)
    threads = THREADS.replace("for\n", f"for schedule(static, {len(said)})\n")
    if not has_threads:
        return change("threads", LOOP, threads)
    if "Combine what makes" in prompt and not has_pairs:
        return change("pairs and threads", INNER, PAIRS.replace(LAST, MENDED))
    whole = PROGRAM.replace(LOOP, threads).replace(INNER, PAIRS.replace(LAST, MENDED))
    return Answer(f"Idea: rows in other portions\n```cpp\n{whole}```")


def _first(prompt: str) -> str:
    """The source that edits apply to."""
    return prompt.split("# Program\n", 1)[1].split("```")[1]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    file = tmp_path / "weighted_sum.py"
    file.write_text(OPERATOR)
    file.with_suffix(".cpp").write_text(PROGRAM)
    give([read_definition(file)])
    bench = Bench(Cpu())
    yield Here(bench.judge)
    bench.close()


def test_a_wrong_draft_is_repaired_improved_and_crossed_on_this_machine(tmp_path: Path, here: Here) -> None:
    said: list[str] = []
    with serving(lambda request: conversation(request, said)) as server:
        made = wanted(tmp_path, server.base, evaluations=6, repairs=1)
        policy = PolicyConfig(islands=1, population=4, drafts=0, draft_rate=0.0, crossover_rate=0.5, migration_every=0)
        made = replace(made, policy=policy, operators=["weighted_sum"])
        summary = evolve(made, leases=[here], workers=HERE)
    judged = {e.data["program"]: e.data["judgement"]["verdict"] for e in events_of(made, "judged")}
    children = [e.data["program"] for e in events_of(made, "proposed") if e.data["asked"] is not None]
    steps = [(child["origin"]["kind"], judged[child["id"]]["verdict"]) for child in children]
    assert steps[:2] == [("improve", "Rejected"), ("repair", "Scored")]
    assert ("improve", "Scored") in steps[2:]
    assert ("crossover", "Scored") in steps
    assert children[1]["parents"] == [children[0]["id"]]
    wrong = judged[children[0]["id"]]
    assert wrong["reason"] in said[1], "the repair is told what the judge found"
    crossed = next(child for child in children if child["origin"]["kind"] == "crossover")
    assert len(crossed["parents"]) == 2
    assert summary.models["openai/scripted"].repaired == 1
