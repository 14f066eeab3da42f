"""A user's own operator from a file and from a call: real Ray, compiler and judge; killed, resumed, interrupted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kevolve.configuration import load_config
from kevolve.errors import UsageError
from kevolve.events import read_events
from kevolve.template import TEMPLATE

OPERATOR = """
import torch

def reference(x, shift):
    return torch.relu(x - shift)

def make_inputs(rng, rows, dim):
    return {"x": torch.randn(rows, dim, generator=rng), "shift": torch.rand(dim, generator=rng)}

workloads = [dict(rows=200, dim=96), dict(rows=65, dim=33, dtype="bfloat16", role="holdout")]
"""
PROGRAM = """
#include "kevolve.h"

extern "C" void shifted(const VALUE *x, const VALUE *shift, VALUE *out, int64_t rows, int64_t dim) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t d = 0; d < dim; d++) {
            float value = (float)x[r * dim + d] - (float)shift[d];
            out[r * dim + d] = value > 0.0f ? value : 0.0f;
        }
    }
}
"""
CALL = """
import asyncio, os, signal, sys, threading, time
from pathlib import Path
import ray, torch, kevolve

def shifted(x, shift):
    return torch.relu(x - shift)

def make_inputs(rng, rows, dim):
    return {"x": torch.randn(rows, dim, generator=rng), "shift": torch.rand(dim, generator=rng)}

def evolve(evaluations, **more):
    workloads = [dict(rows=200, dim=96)]
    return kevolve.evolve(shifted, make_inputs, workloads, name="call", program="shifted.cpp", evaluations=evaluations,
                          minutes=4, runs_dir="runs", quiet=True, **more)

def interrupt_after(verdicts):
    events = Path("runs/call/events.jsonl")
    while events.read_text().count('"kind":"judged"') < verdicts:
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

async def main():
    done = evolve(1)
    x, shift = torch.randn(7, 5), torch.rand(5)
    assert torch.allclose(done.champion(x, shift=shift), shifted(x, shift))
    assert done.champion(x[:, ::2], shift[::2]).shape == (7, 3)
    try:
        done.champion(x, shift[:2])
        sys.exit("a shape that does not fit was taken")
    except ValueError as error:
        assert "[dim]" in str(error)
    assert done.speedup > 0 and "shifted" in done.source and done.interval[0] <= done.interval[1]
    threading.Thread(target=interrupt_after, args=[4], daemon=True).start()
    again = evolve(5000, resume=True)
    assert again.summary.stopped == "interrupted", again.summary.stopped
    assert again.champion(x, shift).shape == (7, 5)

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=10**8, address="local")
asyncio.run(main())
print("all is well")
"""


@pytest.fixture
def environment() -> dict[str, str]:
    """Eager baselines only: compiling them is torch's business, and takes its time."""
    return {**os.environ, "CI": "true", "TORCHDYNAMO_DISABLE": "1"}


def run(folder: Path, environment: dict[str, str], *arguments: str) -> list[str]:
    fixed = [
        "tracking=none",
        "runs_dir=runs",
        "judge.confirm_pairs=6",
        "judge.max_pairs=6",
        "lanes=1",
        "budget.confirmations=1",
    ]
    return [sys.executable, "-m", "kevolve.run", *fixed, *arguments]


def test_an_operator_from_a_file_outlives_its_driver_and_its_file(tmp_path: Path, environment: dict[str, str]) -> None:
    file = tmp_path / "shifted.py"
    file.write_text(OPERATOR)
    (tmp_path / "shifted.cpp").write_text(PROGRAM)
    options = ["operator_file=shifted.py", "name=trial", "budget.evaluations=2"]
    first = subprocess.Popen(
        run(tmp_path, environment, *options), stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    )
    assert first.stdout is not None
    for line in first.stdout:
        if "shifted 1/2" in line:
            first.kill()
    assert first.wait(timeout=60) == -9

    file.write_text(OPERATOR.replace("x - shift", "x + shift"))
    again = run(tmp_path, environment, "resume=true", "name=trial", "operator_file=shifted.py")
    resumed = subprocess.run(again, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=400)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "shifted.py has changed since" in resumed.stdout
    events = [event for event in read_events(tmp_path / "runs/trial/events.jsonl") if event.kind == "judged"]
    judged = Counter(event.data["program"] for event in events if not event.data["reused"])
    assert set(judged.values()) == {1}
    (result,) = json.loads((tmp_path / "runs/trial/summary.json").read_text())["results"]
    assert result["operator"] == "shifted"
    assert result["best"]["confirmed"]
    assert {row["role"] for row in result["workloads"]} == {"search", "holdout"}
    crown = ["--operator", "shifted", "--from", "trial", "--runs-dir", "runs", "--champions-dir", "kept"]
    crowned = subprocess.run(
        [sys.executable, "-m", "kevolve.champions", *crown],
        capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert crowned.returncode == 0, crowned.stdout + crowned.stderr
    assert list(tmp_path.glob("kept/shifted/cpu-*/program.cpp"))

    wrong = tmp_path / "wrong.cpp"
    wrong.write_text(PROGRAM.replace(" > 0.0f", " > 0.1f"))
    kept = ["--operator-file", "runs/trial/operator.py", "--operator", "shifted"]
    verdict = subprocess.run(
        [sys.executable, "-m", "kevolve.judge", str(wrong), *kept],
        capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert verdict.returncode == 1, verdict.stdout + verdict.stderr
    assert "Rejected at correctness: wrong on" in verdict.stdout


def test_a_call_beside_an_event_loop_returns_a_function_and_can_be_interrupted_and_resumed(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "call.py").write_text(CALL)
    (tmp_path / "shifted.cpp").write_text(PROGRAM)
    finished = subprocess.run(
        [sys.executable, "call.py"], capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=400
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "all is well" in finished.stdout


@pytest.mark.parametrize(
    ("text", "more", "told"),
    [
        (OPERATOR.replace("workloads =", "workload ="), [], "workloads not defined. Did you mean workload?"),
        (OPERATOR + "def broken(:\n", [], "line 11: invalid syntax"),
        ("name = 'jagged_sum'\n" + OPERATOR, [], "kevolve has an operator called jagged_sum"),
        ("name = '3d'\n" + OPERATOR, [], "'3d' cannot name a C function"),
        ("name = 'a' + 'b'\n" + OPERATOR, [], "line 1: name must be a text in quotes"),
        ("program = 'none.cpp'\n" + OPERATOR, [], "which cannot be read (No such file or directory)"),
        (OPERATOR, ["operators=[jagged_sum]"], "holds my_op and no other"),
        (None, [], "cannot be read (No such file or directory). Start from: python -m kevolve.template > my_op.py"),
    ],
)
def test_a_wrong_file_is_told_before_anything_is_imported(
    tmp_path: Path, text: str | None, more: list[str], told: str
) -> None:
    file = tmp_path / "my_op.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError) as error:
        load_config([f"operator_file={file}", *more])
    assert told in str(error.value)


def test_a_files_operator_replaces_those_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "my_op.py"
    file.write_text(TEMPLATE.read_text())
    assert load_config([f"operator_file={file}", "+experiment=jagged_ops"]).operators == ["my_op"]
    file.write_text("name = 'fine'\n" + TEMPLATE.read_text())
    assert load_config([f"operator_file={file}"]).operators == ["fine"]


def test_what_a_file_raises_is_told_with_its_line_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "my_op.py").write_text(OPERATOR.replace("torch.relu", "torch.rellu"))
    refused = subprocess.run(
        [sys.executable, "-m", "kevolve.run", "operator_file=my_op.py", "runs_dir=runs"],
        capture_output=True, text=True, cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "my_op.py: reference(" in refused.stderr
    assert "(line 5)" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "runs").exists()
