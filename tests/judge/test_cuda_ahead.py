"""Baselines are compiled side by side before a survey, and nothing that goes wrong with one stops another."""

from __future__ import annotations

import time

import pytest

from kevolve.judge.cuda.ahead import compile_ahead
from kevolve.operators.custom.definition import Definition
from kevolve.operators.custom.given import forget, give
from kevolve.operators.registry import load_operator

SOURCE = """
import os, time
import torch

def reference(x):
    return x + 1

def make_inputs(rng, count):
    return {{"x": torch.randn(count, generator=rng)}}

workloads = [dict(count=3000, name="main"), dict(count=7, name="small")]

def noted(x, name):
    with open({folder!r} + f"/{{name}}-{{len(x)}}", "a") as file:
        file.write(f"{{os.getpid()}}\\n")
    return x + 1

def fails(x):
    raise RuntimeError("no such kernel")

def hangs(x):
    time.sleep(600)

baselines = {{
    "compiled_one": lambda x: noted(x, "one"),
    "compiled_other": lambda x: noted(x, "other"),
    "compiled_fails": fails,
    "compiled_hangs": hangs,
}}
"""


@pytest.fixture
def operator(tmp_path):
    give([Definition("side_by_side", "source", SOURCE.format(folder=str(tmp_path)).encode(), "side_by_side.py")])
    yield load_operator("side_by_side")
    forget("side_by_side")


def test_every_baseline_is_called_on_every_workload_in_several_processes(operator, tmp_path):
    names = ["compiled_fails", "compiled_one", "compiled_other"]
    compile_ahead(operator, names, 2, {}, "cpu", "cpu")
    noted = {file.name: file.read_text().split() for file in tmp_path.iterdir()}
    assert sorted(noted) == ["one-3000", "one-7", "other-3000", "other-7"]
    assert all(len(calls) == 2 for calls in noted.values())
    assert len({process for calls in noted.values() for process in calls}) == 2


def test_one_that_hangs_is_given_up(operator):
    start = time.monotonic()
    compile_ahead(operator, ["compiled_hangs"], 2, {}, "cpu", "cpu", seconds=1.0)
    assert time.monotonic() - start < 30
