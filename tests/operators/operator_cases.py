"""Operators with drawn inputs and oracle answers, drawn once per test session, and faulty or honest ways to compute."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import torch

from kevolve.operators.jagged.jagged import spans
from kevolve.operators.operator import Inputs, Mismatch, Operator, Outputs, Workload
from kevolve.operators.registry import load_operator, operator_names

OPERATORS = operator_names()
operator_named = cache(load_operator)


@cache
def drawn(operator: str, workload: str) -> tuple[Operator, Workload, Inputs, Outputs]:
    """Tests must not write into what they get."""
    op = operator_named(operator)
    chosen = next(w for w in op.workloads if w.name == workload)
    inputs = op.make_inputs(chosen, torch.Generator().manual_seed(1))
    return op, chosen, inputs, op.oracle(inputs)


def names(operator: str, *roles: str) -> list[str]:
    return [w.name for w in operator_named(operator).workloads if w.role in roles]


def verdict(operator: str, workload: str, out: torch.Tensor) -> Mismatch | None:
    op, chosen, inputs, expected = drawn(operator, workload)
    return op.check(chosen, {"out": out}, expected, inputs)


def segments(inputs: Inputs) -> Iterator[tuple[int, slice]]:
    for b, (start, end) in enumerate(spans(inputs)):
        yield b, slice(start, end)


def value_dtype(workload: Workload) -> torch.dtype:
    dtype = getattr(torch, workload.dtype)
    assert isinstance(dtype, torch.dtype)
    return dtype


def number_inputs(operator: str) -> list[str]:
    """The names of the inputs other than offsets."""
    return [a.name for a in operator_named(operator).arguments if a.kind == "input" and a.dtype == "value"]


def right_answer(operator: str, workload: str) -> torch.Tensor:
    """The oracle's answer, rounded to the workload's dtype."""
    _, chosen, _, expected = drawn(operator, workload)
    return expected["out"].to(value_dtype(chosen))
