"""The oracles against answers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from operator_cases import OPERATORS, drawn, names, operator_named

from kevolve.operators.operator import Inputs


def jagged(values: list[list[float]], offsets: list[int], **more: int) -> Inputs:
    tensor = torch.tensor(values, dtype=torch.float32).reshape(len(values), -1)
    scalars = {"batch": len(offsets) - 1, "total": tensor.shape[0], "dim": tensor.shape[1], **more}
    return Inputs({"values": tensor, "offsets": torch.tensor(offsets)}, scalars)


def test_sum_adds_each_row_and_gives_zero_for_an_empty_one_and_ignores_the_tail():
    inputs = jagged([[1, 10], [2, 20], [4, 40], [math.nan, math.nan]], [0, 2, 2, 3])
    assert operator_named("jagged_sum").oracle(inputs)["out"].tolist() == [[3, 30], [0, 0], [4, 40]]


def test_sum_keeps_nan_and_infinity_in_their_row_and_column():
    inputs = jagged([[math.nan, 1], [2, math.inf], [3, 4]], [0, 2, 3])
    out = operator_named("jagged_sum").oracle(inputs)["out"]
    assert math.isnan(out[0, 0])
    assert out[0, 1] == math.inf
    assert out[1].tolist() == [3, 4]


def test_softmax_normalises_each_column_of_each_row():
    inputs = jagged([[0, 1], [math.log(3), 1], [5, -math.inf], [7, 7]], [0, 2, 3], max_length=9)
    out = operator_named("jagged_softmax").oracle(inputs)["out"]
    assert out[:2].flatten().tolist() == pytest.approx([0.25, 0.5, 0.75, 0.5])
    assert out[2, 0] == 1
    assert math.isnan(out[2, 1]), "a column of only -inf is NaN, as in torch.softmax"
    assert out[3].tolist() == [0, 0], "rows past the last offset are 0"


def test_softmax_uses_only_the_first_max_length_rows():
    inputs = jagged([[1], [1], [math.nan], [2]], [0, 3, 4], max_length=2)
    assert operator_named("jagged_softmax").oracle(inputs)["out"].flatten().tolist() == [0.5, 0.5, 0, 1]


@pytest.mark.parametrize("operator", OPERATORS)
def test_oracle_agrees_with_an_independent_computation_in_python_numbers(operator):
    for workload in ("int32_offsets", "noncontiguous", "misaligned_base", "empty_run"):
        _, _, inputs, expected = drawn(operator, workload)
        bounds, rows = inputs.offsets.tolist(), inputs.values.tolist()
        for b in range(inputs.batch):
            for d in range(0, inputs.dim, 5):
                column = [rows[t][d] for t in range(bounds[b], bounds[b + 1])]
                if operator == "jagged_sum":
                    assert float(expected["out"][b, d]) == pytest.approx(math.fsum(column), abs=1e-12)
                else:
                    powers = [math.exp(x - max(column)) for x in column]
                    wanted = [p / math.fsum(powers) for p in powers]
                    assert expected["out"][bounds[b] : bounds[b + 1], d].tolist() == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("operator", OPERATORS)
def test_oracle_and_check_leave_the_inputs_as_they_are(operator):
    for name in names(operator, "adversarial"):
        op, workload, inputs, expected = drawn(operator, name)
        before = {key: tensor.clone() for key, tensor in inputs.tensors.items()}
        op.oracle(inputs)
        op.check(workload, expected, expected, inputs)
        op.check(workload, {"out": expected["out"].to(inputs.values.dtype)}, expected, inputs)
        for key, tensor in inputs.tensors.items():
            assert torch.equal(tensor.nan_to_num(nan=77), before[key].nan_to_num(nan=77)), (name, key)


@pytest.mark.parametrize("operator", OPERATORS)
def test_cost_counts_what_is_used_and_not_what_is_skipped(operator):
    op = operator_named(operator)
    limit = {"max_length": 2} if operator == "jagged_softmax" else {}
    inputs = jagged([[1, 1]] * 7, [0, 3, 4, 4], **limit)  # 3 rows of tail; softmax skips one row more
    cost = op.cost(inputs)
    offsets = 4 * 8
    if operator == "jagged_sum":
        assert (cost.bytes, cost.flops) == ((4 * 2 + 3 * 2) * 4 + offsets, 8)
    else:
        assert (cost.bytes, cost.flops) == ((3 * 2 + 7 * 2) * 4 + offsets, 5 * 6)
