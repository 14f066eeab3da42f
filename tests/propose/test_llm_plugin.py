"""A chip whose dialect kevolve does not know: a model learns it from the package's documents, and what it answers is
judged. The replies are scripted: that shows that all is connected, and nothing about models.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from llm_runs import HERE, calls_of, events_of, wanted
from scripted_server import Answer, serving
from this_machine import Here

from kevolve.config import JudgeConfig, PolicyConfig
from kevolve.devices.registry import find_devices
from kevolve.judge.choice import judge_of
from kevolve.operators.custom.definition import kept, read_definition
from kevolve.operators.custom.given import give
from kevolve.search.evolution import evolve
from tests.test_device_plugins import PLUGINS, installed, needs_pocl

__all__ = ["installed"]

INNER = """        for (long column = 0; column < dim; column++)
            sum += get(x, row * dim + column);
"""
PAIRS = """        float other = 0;
        for (long column = 0; column + 1 < dim; column += 2) {
            sum += get(x, row * dim + column);
            other += get(x, row * dim + column + 1);
        }
        sum += other;
        if (dim % 2) sum += get(x, row * dim + dim - 1);
"""


def reply(request: dict[str, Any]) -> Answer:
    """At first what the dialect does not have; then what the documents say."""
    prompt = request["messages"][-1]["content"]
    wrong = "        sum += vector_sum(x + row * dim, dim);\n"
    new = PAIRS if "was rejected" in prompt else wrong
    return Answer(
        f"Idea: two at a time\n\n<<<<<<< SEARCH\n{wrong if new == PAIRS else INNER}=======\n{new}>>>>>>> REPLACE"
    )


@needs_pocl
def test_a_dialect_is_learned_from_documents_alone_and_an_answer_in_it_is_judged(
    tmp_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(installed)
    definition = read_definition(PLUGINS / "row_sums.py")
    give([definition])
    (device,) = find_devices("pocl", "opencl")
    judge = judge_of(device, JudgeConfig(baselines="eager", max_pairs=6, confirm_pairs=6))
    policy = PolicyConfig(islands=1, population=4, drafts=0, draft_rate=0.0, crossover_rate=0.0, migration_every=0)
    try:
        with serving(reply) as server:
            made = wanted(tmp_path, server.base, evaluations=2, repairs=1)
            made = replace(made, policy=policy, operators=["row_sums"], operator_file=str(PLUGINS / "row_sums.py"))
            made.device.name = "pocl"
            evolve(made, leases=[Here(judge)], workers=HERE)
            prompts = server.prompts()
    finally:
        judge.close()
    for prompt in prompts:
        assert "## opencl (picked because for pocl" in prompt
        assert "`put(pointer, place, number)` writes one" in prompt, "the dialect"
        assert "```cpp" not in prompt, "no code in another one"
    picked = {document["name"] for call in calls_of(made) for document in call["documents"]}
    assert not [name for name in picked if name.startswith(("hardware/", "guidance/triton"))]
    children = [e.data["program"] for e in events_of(made, "proposed") if e.data["asked"] is not None]
    assert {child["language"] for child in children} == {"opencl"}
    judged = {e.data["program"]: e.data["judgement"]["verdict"] for e in events_of(made, "judged")}
    wrong, right = (judged[child["id"]] for child in children[:2])
    assert wrong["verdict"] == "Rejected"
    assert "vector_sum" in prompts[1], "PoCL's words"
    assert right["verdict"] == "Scored", right
    copy = kept(Path(made.runs_dir) / str(made.name), "row_sums")
    assert copy is not None
    assert (copy.program, copy.language) == (definition.program, "opencl"), "a resume starts from the same"
