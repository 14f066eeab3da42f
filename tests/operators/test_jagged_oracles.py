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


def test_mean_divides_by_each_rows_own_length_and_gives_zero_for_an_empty_one():
    inputs = jagged([[1, 10], [2, 20], [4, 40], [math.nan, math.nan]], [0, 2, 2, 3])
    assert operator_named("jagged_mean").oracle(inputs)["out"].tolist() == [[1.5, 15], [0, 0], [4, 40]]


def test_layer_norm_is_over_rows_and_columns_of_each_entry():
    inputs = jagged([[1, 2], [3, 4], [5, 5], [math.nan, 1]], [0, 2, 2, 3])
    out = operator_named("jagged_layer_norm").oracle(inputs)["out"]
    assert out[:2].flatten().tolist() == pytest.approx([x / math.sqrt(1.25 + 1e-6) for x in (-1.5, -0.5, 0.5, 1.5)])
    assert out[2:].tolist() == [[0, 0], [0, 0]], "no variance gives 0, and so do rows past the last offset"


def test_padded_gets_each_row_and_zeros_and_drops_what_is_too_long():
    inputs = jagged([[1], [2], [3], [4], [math.nan]], [0, 3, 3, 4], max_length=2)
    assert operator_named("jagged_to_padded_dense").oracle(inputs)["out"].tolist() == [
        [[1], [2]],
        [[0], [0]],
        [[4], [0]],
    ]


def with_dense(inputs: Inputs, name: str, dense: list) -> Inputs:
    return Inputs({**inputs.tensors, name: torch.tensor(dense, dtype=torch.float32)}, inputs.scalars)


def test_jagged_gets_the_rows_in_use_and_zeros_where_dense_has_none():
    inputs = jagged([[0]] * 5, [0, 3, 3, 4], max_length=2)
    inputs = with_dense(inputs, "dense", [[[1], [2]], [[math.nan], [math.inf]], [[4], [math.nan]]])
    assert operator_named("dense_to_jagged").oracle(inputs)["out"].flatten().tolist() == [1, 2, 0, 4, 0]


def test_add_keeps_values_that_dense_has_no_row_for_and_zeroes_the_tail():
    inputs = jagged([[1], [2], [3], [4], [math.nan]], [0, 3, 3, 4], max_length=2)
    inputs = with_dense(inputs, "dense", [[[10], [20]], [[math.nan], [math.inf]], [[40], [math.nan]]])
    assert operator_named("jagged_dense_elementwise_add").oracle(inputs)["out"].flatten().tolist() == [11, 22, 3, 44, 0]


def test_bmm_multiplies_each_row_by_its_entrys_matrix():
    inputs = jagged([[1, 2], [3, 4], [math.nan, 0], [5, 6], [math.inf, 1]], [0, 3, 3, 4], max_length=2, out_dim=1)
    inputs = with_dense(inputs, "matrices", [[[1], [10]], [[math.nan], [math.inf]], [[100], [0]]])
    assert operator_named("jagged_dense_bmm").oracle(inputs)["out"].flatten().tolist() == [21, 43, 0, 500, 0]


def column(inputs: Inputs, b: int, d: int) -> list[float]:
    return inputs.values[int(inputs.offsets[b]) : int(inputs.offsets[b + 1]), d].tolist()


def softmax(numbers: list[float]) -> list[float]:
    powers = [math.exp(x - max(numbers)) for x in numbers]
    return [p / math.fsum(powers) for p in powers]


def layer_norm(inputs: Inputs, b: int, d: int) -> list[float]:
    every = inputs.values[int(inputs.offsets[b]) : int(inputs.offsets[b + 1])].flatten().tolist()
    mean = math.fsum(every) / max(1, len(every))
    variance = math.fsum((x - mean) ** 2 for x in every) / max(1, len(every))
    return [(x - mean) / math.sqrt(variance + 1e-6) for x in column(inputs, b, d)]


def bmm(inputs: Inputs, b: int, d: int) -> list[float]:
    matrix = inputs.matrices[b, :, d].tolist()
    rows = inputs.values[int(inputs.offsets[b]) : int(inputs.offsets[b + 1])].tolist()
    return [math.fsum(x * y for x, y in zip(row, matrix, strict=True)) for row in rows]


def padded_column(inputs: Inputs, b: int, d: int) -> list[float]:
    return (column(inputs, b, d) + [0.0] * inputs.max_length)[: inputs.max_length]


def dense_column(inputs: Inputs, b: int, d: int) -> list[float]:
    return inputs.dense[b, : int(inputs.offsets[b + 1] - inputs.offsets[b]), d].tolist()


# What belongs in column d of batch entry b, in Python numbers.
BY_HAND = {
    "jagged_sum": lambda inputs, b, d: [math.fsum(column(inputs, b, d))],
    "jagged_mean": lambda inputs, b, d: [math.fsum(column(inputs, b, d)) / max(1, len(column(inputs, b, d)))],
    "jagged_softmax": lambda inputs, b, d: softmax(column(inputs, b, d)),
    "jagged_layer_norm": layer_norm,
    "jagged_dense_bmm": bmm,
    "jagged_to_padded_dense": padded_column,
    "dense_to_jagged": dense_column,
    "jagged_dense_elementwise_add": lambda inputs, b, d: [
        x + y for x, y in zip(column(inputs, b, d), dense_column(inputs, b, d), strict=True)
    ],
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_oracle_agrees_with_an_independent_computation_in_python_numbers(operator):
    for workload in ("int32_offsets", "noncontiguous", "misaligned_base", "empty_run"):
        _, _, inputs, expected = drawn(operator, workload)
        out, bounds = expected["out"], inputs.offsets.tolist()
        for b in range(inputs.batch):
            rows = out[b] if len(out) == inputs.batch else out[bounds[b] : bounds[b + 1]]
            for d in range(0, out.shape[-1], 5):
                wanted = BY_HAND[operator](inputs, b, d)
                assert rows[..., d].reshape(-1).tolist() == pytest.approx(wanted, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("operator", OPERATORS)
def test_oracle_and_check_leave_the_inputs_as_they_are(operator):
    for name in names(operator, "adversarial"):
        op, workload, inputs, expected = drawn(operator, name)
        before = {key: tensor.clone() for key, tensor in inputs.tensors.items()}
        op.oracle(inputs)
        op.check(workload, expected, expected, inputs)
        op.check(workload, {"out": expected["out"].to(getattr(torch, workload.dtype))}, expected, inputs)
        for key, tensor in inputs.tensors.items():
            assert torch.equal(tensor.nan_to_num(nan=77), before[key].nan_to_num(nan=77)), (name, key)


# For rows of 2 numbers, 7 of them in entries of 3, 1 and 0, matrices of 2 by 3: numbers moved and operations.
COSTS = {
    "jagged_sum": (4 * 2 + 3 * 2, 8),
    "jagged_mean": (4 * 2 + 3 * 2, 8),
    "jagged_layer_norm": (4 * 2 + 7 * 2, 5 * 8),
    # These use only 2 rows of the first entry.
    "jagged_softmax": (3 * 2 + 7 * 2, 5 * 6),
    "jagged_to_padded_dense": (3 * 2 + 3 * 2 * 2, 0),
    "dense_to_jagged": (3 * 2 + 7 * 2, 0),
    "jagged_dense_elementwise_add": (4 * 2 + 3 * 2 + 7 * 2, 6),
    "jagged_dense_bmm": (3 * 2 + 2 * 2 * 3 + 7 * 3, 3 * 2 * 3 * 2),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_cost_counts_what_is_used_and_not_what_is_skipped(operator):
    op = operator_named(operator)
    scalars = {a.name for a in op.arguments if a.kind == "scalar"}
    more = {name: value for name, value in (("max_length", 2), ("out_dim", 3)) if name in scalars}
    cost = op.cost(jagged([[1, 1]] * 7, [0, 3, 4, 4], **more))
    numbers, flops = COSTS[operator]
    assert (cost.bytes, cost.flops) == (numbers * 4 + 4 * 8, flops)
