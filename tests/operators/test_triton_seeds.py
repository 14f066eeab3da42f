"""The Triton starting programs are right where no GPU is needed to see it: in Triton's interpreter, on small workloads.

In float32 only: the interpreter is wrong about bfloat16. On a GPU `tests/gpu` runs them on every workload.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from operator_cases import OPERATORS

from kevolve.paths import seeds_dir

pytest.importorskip("triton", reason="Triton is not installed")


@pytest.mark.parametrize("seed", ["plain", "tuned"])
def test_every_starting_program_is_right_in_the_interpreter(seed):
    script = Path(__file__).with_name("triton_interpreter.py")
    programs = [f"{name}={seeds_dir() / name / seed}.py" for name in OPERATORS]
    command = [sys.executable, "-W", "ignore", str(script), *programs]
    told = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert told.stdout.splitlines() == [f"{name} done" for name in OPERATORS], told.stdout + told.stderr
