"""The self-test's canaries for a GPU do what they are for, as far as that can be seen without one."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kevolve.judge.prepare import Scratch
from kevolve.judge.sandbox.tiers import find_tier
from kevolve.judge.selftest import NAME, canaries, canary_operator, joined
from kevolve.languages.language import Built, Target
from kevolve.languages.triton import compiling, host
from kevolve.languages.triton.build import VARIANT, Triton, calls
from kevolve.operators.custom.given import forget
from kevolve.program import Program

pytest.importorskip("triton", reason="Triton is not installed")

H200 = Target("sm_90", "triton", ("shared_bytes=232448",))
CALLS_BEFORE_TIMING = 4  # that find out how long a block is to be
LATE = 30  # the call from which on some canaries cheat
ALWAYS = {
    "answers_a_constant": "wrong",
    "sums_in_half_precision": "wrong",
    "reads_beside_its_input": "NaN",
    "writes_beside_its_output": "writes beside its output",
    "writes_nothing": "NaN",
    "writes_to_its_input": "writes to its input",
}


@pytest.fixture(scope="module")
def operator():
    """Known to this process only for as long as these tests run: others take every operator that there is."""
    yield canary_operator("triton", "")
    forget(NAME)


def test_every_canary_is_honest_or_cheats_as_it_says(tmp_path: Path) -> None:
    script = Path(__file__).with_name("interpreted_canaries.py")
    command = [sys.executable, str(script), str(tmp_path / "joined.py")]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    calls = len(told["honest"])
    assert told.pop("honest") == told.pop("does_it_twice") == [""] * calls
    assert told.pop("passes_its_input_through")[0] == "wrong"
    assert told.pop("replays_its_last_answer") == [""] * (LATE - 1) + ["wrong"] * (calls - LATE + 1)
    assert told.pop("leaves_out_a_row_once") == [""] * (LATE - 1) + ["NaN"] + [""] * (calls - LATE)
    assert told == {name: [what] * calls for name, what in ALWAYS.items()}


def test_those_that_wait_for_timed_calls_wait_long_enough(operator) -> None:
    untimed = len(operator.workloads) + len(operator.facts.contents) + CALLS_BEFORE_TIMING
    assert untimed < LATE


def test_one_build_has_what_every_canary_launches(operator, tmp_path: Path) -> None:
    confined = Scratch(find_tier(), tmp_path.resolve(), 120.0)
    built = Triton().build(Program(NAME, "triton", joined("triton", operator)), operator, H200, confined)
    assert isinstance(built, Built), built
    with zipfile.ZipFile(io.BytesIO(built.binaries[VARIANT])) as archive:
        kernels = json.loads(archive.read("kernels.json"))
        source = archive.read("program.py").decode()
    known = {json.dumps(kernel["key"]) for kernel in kernels}
    for canary in canaries("triton"):
        traces = compiling.traced(host, source, canary.name, list(calls(operator)))
        launched = {json.dumps(launch[0]) for trace in traces for launch in trace}
        assert launched <= known, canary.name
        assert launched or canary.name == "writes_nothing"


def test_a_device_with_a_judge_of_its_own_has_no_canaries_of_ours() -> None:
    from kevolve.devices.cuda import Cuda
    from kevolve.judge.selftest import has_canaries

    class Another(Cuda):
        def judge(self, settings):
            return object()

    assert has_canaries(Cuda())
    assert not has_canaries(Another())
