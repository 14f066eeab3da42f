"""What torch.compile's generator writes for a GPU stands alone as a program, without the GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kevolve.languages.triton.inductor import programs_of
from kevolve.languages.triton.screen import check

pytest.importorskip("triton", reason="Triton is not installed")


def test_generated_kernels_are_a_right_program_by_themselves(tmp_path, monkeypatch):
    operator = "jagged_sum"
    monkeypatch.setenv("KEVOLVE_CACHE", str(tmp_path))
    programs, _ = programs_of(operator)
    source = programs["compiled_gather"]
    assert check(source, operator) == ""
    assert list(tmp_path.glob("inductor-*.json"))
    file = tmp_path / "program.py"
    file.write_text(source)
    script = Path(__file__).parents[1] / "operators" / "triton_interpreter.py"
    command = [sys.executable, "-W", "ignore", str(script), f"{operator}={file}"]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.stdout.splitlines() == [f"{operator} done"], told.stdout + told.stderr


def test_what_is_left_to_a_library_is_no_program_and_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("KEVOLVE_CACHE", str(tmp_path))
    programs, failures = programs_of("jagged_dense_bmm")
    assert not programs
    assert "extern_kernels.bmm" in failures["compiled_gather"]
