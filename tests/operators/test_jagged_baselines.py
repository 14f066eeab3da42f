"""Every baseline is right on every workload, or known here to be wrong there."""

from __future__ import annotations

import functools

import pytest
from operator_cases import OPERATORS, drawn, names, operator_named

from kevolve.operators.jagged.forms import has_fbgemm

TAIL = {"b0_tail", "all_empty_tail", "tail_rows_nan", "tail_rows_nan_bfloat16"}
# Whether a baseline minds dim == 0 depends on how many threads split nothing.
EITHER_WAY = {"d0"}
CUT = {"truncated", "n0", "trunc_half", "trunc_half_int32", "trunc_half_nan", "trunc_half_nan_bfloat16"}
NO_BATCH = {"b0", "b0_tail"}

# Raises or is wrong, as seen with torch 2.13 and fbgemm_gpu 1.8 on the CPU.
KNOWN_WRONG = {
    "jagged_sum": {
        "padded": NO_BATCH,
        "nested": NO_BATCH,
        "fbgemm_padded": NO_BATCH,
        "fbgemm_vector": NO_BATCH,
    },
    "jagged_softmax": {
        "bag": TAIL | CUT,
        "scatter": TAIL | CUT,
        "padded": TAIL | CUT | {"b0"},
        "nested": TAIL | CUT | {"b0", "all_empty"},
        "fbgemm_padded": NO_BATCH,
    },
}


def bfloat16_workloads(operator: str) -> set[str]:
    return {w.name for w in operator_named(operator).workloads if w.dtype == "bfloat16"}


@functools.cache
def wrong_workloads(operator: str, baseline: str) -> set[str]:
    run = operator_named(operator).baselines("cpu")[baseline]

    def is_wrong(name: str) -> bool:
        op, workload, inputs, expected = drawn(operator, name)
        try:
            outputs = run(inputs)
        except (RuntimeError, IndexError):
            return True
        return op.check(workload, outputs, expected, inputs) is not None

    return {name for name in names(operator, "search", "holdout", "adversarial") if is_wrong(name)}


EAGER = [
    (operator, baseline)
    for operator in OPERATORS
    for baseline in operator_named(operator).baselines("cpu")
    if not baseline.startswith("compiled")
]
UNWRITTEN = {("jagged_sum", "segment_reduce"), ("jagged_sum", "sparse_csr"), ("jagged_softmax", "fbgemm")}


@pytest.mark.parametrize(("operator", "baseline"), [case for case in EAGER if case not in UNWRITTEN])
def test_an_eager_baseline_is_right_where_it_is_not_known_to_be_wrong(operator, baseline):
    known = KNOWN_WRONG[operator].get(baseline, set())
    assert wrong_workloads(operator, baseline) - EITHER_WAY == known


def test_segment_reduce_accumulates_bfloat16_in_bfloat16():
    wrong = wrong_workloads("jagged_sum", "segment_reduce")
    assert wrong <= bfloat16_workloads("jagged_sum")
    assert {"bfloat16", "bf16_long_sum"} <= wrong


def test_sparse_matrices_know_no_bfloat16():
    assert wrong_workloads("jagged_sum", "sparse_csr") == bfloat16_workloads("jagged_sum")


@pytest.mark.skipif(not has_fbgemm(), reason="fbgemm_gpu is not installed here")
def test_fbgemm_softmax_leaves_unused_rows_unwritten_and_rounds_bfloat16_early():
    wrong = wrong_workloads("jagged_softmax", "fbgemm")
    assert wrong <= TAIL | CUT | NO_BATCH | bfloat16_workloads("jagged_softmax")
    assert "bfloat16" in wrong


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_search_workloads_have_a_right_baseline_beyond_the_first(operator):
    right = {
        name: [b for o, b in EAGER if o == operator and name not in wrong_workloads(operator, b)]
        for name in names(operator, "search", "holdout")
    }
    assert all(len(baselines) >= 2 for baselines in right.values()), right


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_compiled_baseline_is_right(operator):
    op, workload, inputs, expected = drawn(operator, "int32_offsets")
    compiled = {name: run for name, run in op.baselines("cpu").items() if name.startswith("compiled")}
    assert 2 <= len(compiled) <= 3
    run = compiled["compiled_gather"]
    assert op.check(workload, run(inputs), expected, inputs) is None


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_missing_fbgemm_is_simply_absent(operator, monkeypatch):
    for module in ("sum_baselines", "softmax_baselines"):
        monkeypatch.setattr(f"kevolve.operators.jagged.{module}.has_fbgemm", lambda: False)
    assert not any(name.startswith("fbgemm") for name in operator_named(operator).baselines("cpu"))
