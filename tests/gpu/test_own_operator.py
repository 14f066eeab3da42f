"""A user's own operator is judged on a GPU, whatever its functions know of devices."""

from __future__ import annotations

import pytest
import torch

from kevolve.judge.lease import Survey
from kevolve.languages.language import Built
from kevolve.operators.custom.definition import Definition
from kevolve.operators.custom.given import give
from kevolve.program import Program
from kevolve.verdict import Rejected, Scored

# Two outputs, one of them of single bytes, whose rounding is explained by how sensitive they are.
PLAIN = """
import torch

def reference(x, lengths):
    return {"out": x.softmax(-1), "is_long": lengths > 100}

def make_inputs(rng, rows, dim):
    return {"x": torch.randn(rows, dim, generator=rng), "lengths": torch.randint(0, 200, (rows,), generator=rng)}

workloads = [dict(rows=2048, dim=500)]
"""

# Functions that only know the CPU.
OF_THE_CPU = """
HALF = torch.tensor(0.5)

def make_inputs(rng, rows, dim):
    drawn = torch.randn(rows, dim, generator=rng, device="cpu") * HALF
    return {"x": drawn, "lengths": torch.randint(0, 200, (rows,), generator=rng, device="cpu")}

def oracle(x, lengths):
    return {"out": torch.from_numpy(x.numpy()).softmax(-1), "is_long": torch.from_numpy(lengths.numpy()) > 100}

def check(outputs, expected, inputs):
    if (outputs["is_long"].numpy() != expected["is_long"].numpy()).any():
        return "is_long is wrong"
    if abs(outputs["out"].double().numpy() - expected["out"].numpy()).max() > 1e-6:
        return "out is wrong"
"""

PROGRAM = """
import triton
import triton.language as tl


@triton.jit
def softmax(x, lengths, out, is_long, dim, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * dim + columns, mask=columns < dim, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * dim + columns, powers / tl.sum(powers, axis=0), mask=columns < dim)
    tl.store(is_long + row, tl.load(lengths + row) > 100)


def NAME(x, lengths, out, is_long, rows, dim):
    softmax[(rows,)](x, lengths, out, is_long, dim, BLOCK=triton.next_power_of_2(dim))
"""


@pytest.mark.parametrize(("name", "text"), {"own_plain": PLAIN, "own_of_the_cpu": PLAIN + OF_THE_CPU}.items())
def test_an_own_operator_is_judged(name, text, bench):
    give([Definition(name, "source", text.encode(), f"{name}.py")])
    judge = bench.judge
    judge.drop_baselines()
    survey = judge.survey(name, 0)
    assert isinstance(survey, Survey), survey

    def verdict(source: str):
        program = Program(name, "triton", source.replace("NAME", name))
        built = judge.prepare(program)
        assert isinstance(built, Built), built
        return judge.measure(program, built, survey, 0).verdict

    right = verdict(PROGRAM)
    assert isinstance(right, Scored), right
    wrong = verdict(PROGRAM.replace("> 100)", "> 101)"))
    assert isinstance(wrong, Rejected), wrong
    assert "is_long" in wrong.reason
    unwritten = verdict(PROGRAM.replace("axis=0), mask=columns < dim)", "axis=0), mask=columns < dim - 1)"))
    assert isinstance(unwritten, Rejected), unwritten


def test_what_make_inputs_draws_is_drawn_on_the_device_where_it_can():
    give([Definition("own_drawn", "source", PLAIN.encode(), "own_drawn.py")])
    from kevolve.operators.custom.given import load_given

    operator = load_given("own_drawn")
    inputs = operator.make_inputs(operator.workloads[0], torch.Generator().manual_seed(0), "cuda")
    assert operator.draws_on_device
    assert inputs.x.is_cuda
    assert inputs.lengths.is_cuda
