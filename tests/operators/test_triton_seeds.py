"""The plain Triton programs are right where no GPU is needed to see it: in Triton's interpreter, on small workloads.

In float32 only: the interpreter is wrong about bfloat16. On a GPU `tests/gpu` runs them on every workload.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from operator_cases import OPERATORS

pytest.importorskip("triton", reason="Triton is not installed")


def test_every_plain_triton_program_is_right_in_the_interpreter():
    script = Path(__file__).with_name("triton_interpreter.py")
    command = [sys.executable, "-W", "ignore", str(script), *OPERATORS]
    told = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert told.stdout.splitlines() == [f"{name} done" for name in OPERATORS], told.stdout + told.stderr
