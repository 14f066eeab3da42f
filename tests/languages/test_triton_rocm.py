"""Programs are built for AMD GPUs that are not here, and the verdict never says more than that."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest

from kevolve.config import JudgeConfig
from kevolve.devices.rocm import LDS_BYTES, Rocm
from kevolve.judge.__main__ import main
from kevolve.judge.choice import judge_of
from kevolve.judge.correctness import Rejection
from kevolve.judge.draws import Draws
from kevolve.judge.interpreted import Calls
from kevolve.judge.lease import Survey
from kevolve.judge.streams import Streams, new_secret
from kevolve.languages.language import Built
from kevolve.languages.triton.build import VARIANT
from kevolve.languages.triton.compiling import amd_resources
from kevolve.operators.registry import load_operator
from kevolve.paths import seeds_dir
from kevolve.program import Program
from kevolve.verdict import Fault, Judgement, Key, Rejected

pytest.importorskip("triton", reason="Triton is not installed, so nothing can be built for a GPU")

SUM = (seeds_dir() / "jagged_sum" / "plain.py").read_text()
PRODUCT = (seeds_dir() / "jagged_dense_bmm" / "plain.py").read_text()
NONE = Survey("any", "any", {})


@pytest.fixture
def judged(monkeypatch):
    """Judge a program on a few of the operator's workloads, `built` already or not."""

    def judge(operator: str, source: str, *names: str, built: Built | None = None) -> tuple[Any, Judgement | None]:
        whole = load_operator(operator, "rocm")
        few = type(whole)(tuple(w for w in whole.workloads if w.name in names))
        for room in ("prepare", "unverified"):
            monkeypatch.setattr(f"kevolve.judge.{room}.load_operator", lambda name, device: few)
        program = Program(operator, "triton", source)
        one = judge_of(Rocm(), JudgeConfig())
        built = built or one.prepare(program)
        return built, one.measure(program, built, NONE, seed=1) if isinstance(built, Built) else None

    return judge


def test_a_program_is_built_for_every_architecture_and_its_verdict_is_unverified(judged):
    built, judgement = judged("jagged_dense_bmm", PRODUCT, "main_bfloat16", "d1")
    assert isinstance(built, Built), built
    with zipfile.ZipFile(io.BytesIO(built.binaries[VARIANT])) as archive:
        kernels = json.loads(archive.read("kernels.json"))
        assert all(archive.read(f"{n}.cubin").startswith(b"\x7fELF") for n in range(len(kernels)))
    assert {kernel["architecture"] for kernel in kernels} == {*LDS_BYTES}
    assert all(kernel["threads"] == 4 * 64 and kernel["wavefront"] == 64 for kernel in kernels)
    assert all(16 <= kernel["registers"] <= 512 and kernel["scalar_registers"] > 0 for kernel in kernels)
    assert all(kernel["matrix_instructions"] > 0 for kernel in kernels)
    assert "MFMA instructions, 256 threads in wavefronts of 64" in built.facts["gfx950"]

    verdict = judgement.verdict
    assert isinstance(verdict, Fault), verdict
    assert verdict.kind == "unverified"
    assert "2 of 2 workloads" in verdict.reason
    assert "1 in float32 instead of bfloat16" in verdict.reason
    assert "with smaller sizes" in verdict.reason
    assert "speedup" not in str(judgement)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("tl.sum(sums, axis=0)", "(tl.sum(sums, axis=0) + 1)", "wrong on d1"),
        ("out + segment * dim + columns", "out + segment * dim + columns + 1", "writes outside out"),
    ],
)
def test_what_the_interpreter_finds_wrong_is_rejected(judged, old, new, reason):
    assert old in SUM
    built = Built("any", {}, "jagged_sum", {})
    _, judgement = judged("jagged_sum", SUM.replace(old, new), "d1", built=built)
    assert isinstance(judgement.verdict, Rejected)
    assert judgement.verdict.stage == "correctness"
    assert reason in judgement.verdict.reason


def test_a_program_that_writes_to_its_inputs_is_rejected(tmp_path):
    operator = load_operator("jagged_sum", "rocm")
    calls = Calls(operator, Draws(operator, Streams(new_secret(), 1)), tmp_path)
    assert calls.place(next(w for w in operator.workloads if w.name == "d1"))
    inputs = (tmp_path / "0.inputs").read_bytes()
    (tmp_path / "0.inputs").write_bytes(bytes([inputs[0] ^ 1]) + inputs[1:])
    with pytest.raises(Rejection, match="writes to its inputs on d1"):
        calls.check(0)


def test_what_the_interpreters_process_leaves_is_not_followed_out_of_its_folder(tmp_path):
    operator = load_operator("jagged_sum", "rocm")
    calls = Calls(operator, Draws(operator, Streams(new_secret(), 1)), tmp_path)
    assert calls.place(next(w for w in operator.workloads if w.name == "d1"))
    (tmp_path / "done").write_text("0\n" * 1000)
    assert calls.done() == 1, "no more calls than there are"
    answer = tmp_path / "0.outputs"
    answer.rename(tmp_path / "elsewhere")
    answer.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Rejection, match="leaves no outputs on d1"):
        calls.check(0)


def test_the_command_says_unverified_with_what_the_program_takes_and_no_number(monkeypatch, capsys):
    found = {"toolchain": "triton 3.7", "gfx942": "50 VGPRs, no MFMA", "interpreted": ["d1"], "unverified": True}
    verdict, key = Fault("unverified", "it builds for gfx942"), Key("program", Rocm().key, "triton 3.7", "1", "1")
    judgement = Judgement(key, verdict, environment=found)
    monkeypatch.setattr("kevolve.judge.__main__._judge", lambda arguments: (judgement, NONE))
    assert main(["plain.py", "--operator", "jagged_sum", "--device", "rocm"]) == 3
    told = capsys.readouterr().out
    assert "gfx942: 50 VGPRs, no MFMA" in told
    assert "Unverified on the device, which is not here: it builds for gfx942. Nothing was timed." in told


def test_mtia_without_a_worker_is_screened_and_then_told_whom_to_ask(tmp_path, capsys):
    words = ["--operator", "jagged_sum", "--device", "mtia"]
    assert main([str(seeds_dir() / "jagged_sum" / "plain.py"), *words]) == 1
    assert "use_dual_core=True" in capsys.readouterr().out.replace("\n", " ")
    portable = tmp_path / "portable.py"
    portable.write_text(SUM.replace(", num_warps=WARPS", ""))
    assert main([str(portable), *words]) == 2
    assert "entry point mtia in the group kevolve.devices" in capsys.readouterr().err


def test_a_workgroup_that_no_wavefronts_of_64_can_make_is_refused(judged):
    computed = SUM.replace("num_warps=WARPS", "num_warps=WARPS * 8")
    refused, _ = judged("jagged_sum", computed, "d1")
    assert isinstance(refused, Rejected)
    assert "num_warps" in refused.reason
    assert refused.stage == "build"


def test_resources_are_read_out_of_the_assembly():
    assembly = """
        v_mfma_f32_32x32x8_f16 a[0:15], v[2:3], v[4:5], a[0:15]
        v_mfma_f32_32x32x8_f16 a[0:15], v[2:3], v[4:5], a[0:15]
    ; v_mfma in a comment does not count
        .private_segment_fixed_size: 12
        .sgpr_count:     40
        .sgpr_spill_count: 0
        .vgpr_count:     128
        .vgpr_spill_count: 3
        .wavefront_size: 64
    """
    assert amd_resources(assembly) == {
        "registers": 128, "scalar_registers": 40, "spilled_registers": 3, "spilled_scalar_registers": 0,
        "scratch_bytes": 12, "wavefront": 64, "matrix_instructions": 2,
    }  # fmt: skip
