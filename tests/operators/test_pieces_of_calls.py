"""Pieces of several calls are a call of their own: right answers pass its check, and what was left out shows."""

from __future__ import annotations

import random

import pytest
import torch

from kevolve.operators.operator import Inputs, Operator, Outputs, Workload
from tests.operators.operator_cases import OPERATORS, names, operator_named

SOME = ("len_tile_plus_minus_1", "truncated", "trunc_half", "mostly_empty", "tail_rows_nan", "bf16_normal", "b1")


def calls(operator: Operator, workload: Workload, count: int = 3) -> list[tuple[Inputs, Outputs]]:
    """With the answers of a program that is right."""
    found = []
    for seed in range(count):
        inputs = operator.make_inputs(workload, torch.Generator().manual_seed(seed))
        out = operator.oracle(inputs)["out"].to(getattr(torch, workload.dtype))
        found.append((inputs, {"out": out}))
    return found


def is_right(operator: Operator, workload: Workload, given: list[tuple[Inputs, Outputs]], seed: int) -> bool:
    pieces = operator.scattered(given, torch.Generator().manual_seed(seed), 4096)
    assert pieces is not None
    inputs, answer = pieces
    return operator.check(workload, answer, operator.oracle(inputs), inputs) is None


@pytest.mark.parametrize("name", OPERATORS)
def test_pieces_of_right_answers_are_right(name: str) -> None:
    operator = operator_named(name)
    for workload in operator.workloads:
        if workload.name in SOME and workload.name in names(name, "adversarial", "holdout"):
            given = calls(operator, workload)
            assert all(is_right(operator, workload, given, seed) for seed in range(3)), workload.name


@pytest.mark.parametrize("name", OPERATORS)
def test_one_call_of_three_left_out_shows_in_pieces_of_all(name: str) -> None:
    operator = operator_named(name)
    workload = next(w for w in operator.workloads if w.name == "exponential")
    given = calls(operator, workload)
    given[1][1]["out"].fill_(torch.nan)
    assert not any(is_right(operator, workload, given, seed) for seed in range(5))


@pytest.mark.parametrize("name", OPERATORS)
def test_what_was_left_in_rows_of_no_entry_shows(name: str) -> None:
    operator = operator_named(name)
    if "total" not in {dimension for a in operator.arguments if a.kind == "output" for dimension in a.shape}:
        return
    workload = next(w for w in operator.workloads if w.name == "tail_rows_nan")
    given = calls(operator, workload, count=1)
    given[0][1]["out"][-1] = 1.0
    assert not is_right(operator, workload, given, seed=0)


@pytest.mark.parametrize("name", OPERATORS)
def test_unseen_sizes_are_of_every_kind_of_binary_and_others_next_time(name: str) -> None:
    operator = operator_named(name)
    first, again = operator.unseen(random.Random(1)), operator.unseen(random.Random(2))
    assert {(w.dtype, w.index_dtype) for w in first} == {(w.dtype, w.index_dtype) for w in operator.workloads[:5]}
    assert [w.sizes for w in first] != [w.sizes for w in again]
    for workload in first:
        assert workload.role == "adversarial"
        operator.oracle(operator.make_inputs(workload, torch.Generator().manual_seed(0)))
