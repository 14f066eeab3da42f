"""Triton programs are built for a GPU that is not here: every specialisation, with what it takes or what is wrong."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from kevolve.config import JudgeConfig
from kevolve.judge.prepare import prepare
from kevolve.judge.sandbox.tiers import find_tier
from kevolve.languages.language import Built, Target
from kevolve.languages.triton.build import VARIANT, Triton
from kevolve.operators.registry import load_operator
from kevolve.paths import seeds_dir
from kevolve.program import Program
from kevolve.verdict import Rejected

pytest.importorskip("triton", reason="Triton is not installed, so nothing can be built for a GPU")

H200 = Target("sm_90", "triton", ("shared_bytes=232448",))
SUM = (seeds_dir() / "jagged_sum" / "plain.py").read_text()


@dataclass(frozen=True)
class Few:
    """An operator with few workloads: what a build costs follows from them."""

    workloads: tuple[str, ...]

    def of(self, name: str):
        whole = load_operator(name, "cuda")
        chosen = tuple(w for w in whole.workloads if w.name in self.workloads)
        return type(whole)(chosen)


def built(source: str, monkeypatch, *workloads: str, target: Target = H200, seconds: float = 60.0) -> Built | Rejected:
    few = Few(workloads or ("main", "main_bfloat16")).of("jagged_sum")
    monkeypatch.setattr("kevolve.judge.prepare.load_operator", lambda name, device: few)
    program = Program("jagged_sum", "triton", source)
    found = prepare(program, target, find_tier(), JudgeConfig(build_seconds=seconds), "cuda")
    assert isinstance(found, Built | Rejected), found
    return found


def test_every_specialisation_is_compiled_with_its_resources(monkeypatch):
    program = built(SUM, monkeypatch)
    assert isinstance(program, Built), program
    with zipfile.ZipFile(io.BytesIO(program.binaries[VARIANT])) as archive:
        kernels = json.loads(archive.read("kernels.json"))
        cubins = [archive.read(f"{number}.cubin") for number in range(len(kernels))]
    assert len(kernels) == 2
    assert all(cubin.startswith(b"\x7fELF") for cubin in cubins)
    assert all(16 <= kernel["registers"] <= 255 for kernel in kernels)
    assert all(kernel["threads"] == 128 for kernel in kernels)
    assert {kernel["key"][1][0][0] for kernel in kernels} == {"*fp32", "*bf16"}


def test_a_program_that_differs_in_text_only_is_the_same_artefact(monkeypatch):
    first = built(SUM, monkeypatch, "main")
    second = built(SUM.replace("has_column", "is_there").replace("\nROWS", "\n\n# rows\nROWS"), monkeypatch, "main")
    third = built(SUM.replace("ROWS = 32", "ROWS = 16"), monkeypatch, "main")
    staged = built(SUM.replace("num_warps=WARPS", "num_warps=WARPS, num_stages=2"), monkeypatch, "main")
    assert isinstance(first, Built)
    assert isinstance(second, Built)
    assert isinstance(third, Built)
    assert isinstance(staged, Built)
    assert first.artefact == second.artefact == staged.artefact != third.artefact


def test_what_the_device_cannot_launch_is_refused_by_name(monkeypatch):
    small = Target("sm_90", "triton", ("shared_bytes=1024",))
    refused = built(SUM, monkeypatch, "main", target=small)
    assert isinstance(refused, Rejected)
    assert refused.stage == "build"
    assert "shared memory" in refused.reason


def test_a_block_that_no_registers_hold_is_refused_before_it_is_compiled(monkeypatch):
    large = SUM.replace("ROWS = 32", "ROWS = 1024").replace("COLUMNS = 128", "COLUMNS = 1024")
    refused = built(large, monkeypatch, "main", seconds=20.0)  # compiling it takes longer
    assert isinstance(refused, Rejected)
    assert "1048576 numbers in 128 threads" in refused.reason


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("tl.sum(sums, axis=0)", "tl.sum(sum, axis=0)", "sum_segment does not compile"),
        ("grid = (batch,", "grid = (batch, 70000 +", "70001 blocks in y"),
        ("ROWS, COLUMNS, num_warps", "ROWS, num_warps", "without its argument COLUMNS"),
        ("ROWS = 32", "ROWS = 33", "sum_segment does not compile"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(monkeypatch, old, new, reason):
    assert old in SUM
    refused = built(SUM.replace(old, new), monkeypatch, "main")
    assert isinstance(refused, Rejected)
    assert refused.stage == "build"
    assert reason in refused.reason


def test_without_triton_a_build_is_a_fault_and_no_rejection(monkeypatch):
    monkeypatch.setattr("kevolve.languages.triton.build.find_spec", lambda name: None)
    confined = SimpleNamespace(scratch=Path("/nowhere"))
    program, operator = Program("jagged_sum", "triton", SUM), load_operator("jagged_sum")
    with pytest.raises(OSError, match="pip install triton"):
        Triton().build(program, operator, H200, confined)
