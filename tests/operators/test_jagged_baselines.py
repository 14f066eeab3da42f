"""Every baseline is right on every workload, or known here to be wrong there."""

from __future__ import annotations

import functools
import inspect

import pytest
import torch
from operator_cases import OPERATORS, drawn, names, operator_named

from kevolve.operators.jagged import forms
from kevolve.operators.jagged.forms import has_fbgemm

# Workloads with rows past the last offset; an operator need not have all of them.
TAIL = {
    *("b0_tail", "all_empty_tail", "tail_rows_nan", "tail_rows_nan_bfloat16"),
    *("padding_nan_all_empty", "all_empty_nan"),
}
GPU_ONLY = [
    ("jagged_sum", "compiled_mask"),
    ("jagged_mean", "compiled_mask"),
    ("jagged_softmax", "compiled_mask"),
    ("jagged_layer_norm", "compiled_statistics"),
]
# Whether a baseline minds dim == 0 depends on how many threads split nothing.
EITHER_WAY = {"d0", "out_d0"}
CUT = {
    "truncated",
    "n0",
    "trunc_half",
    "trunc_half_int32",
    "trunc_half_nan",
    "trunc_half_nan_bfloat16",
    "odd_bits_truncated",
}
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
    "jagged_mean": {
        "embedding_bag": {"tail_rows_nan", "tail_rows_nan_bfloat16"},
        "padded": NO_BATCH,
        "fbgemm_padded": NO_BATCH,
        "fbgemm_vector": NO_BATCH,
    },
    "jagged_layer_norm": {
        "padded": TAIL | NO_BATCH,
        "fbgemm_padded": NO_BATCH | TAIL,
    },
    "jagged_to_padded_dense": {
        "gather": {"all_empty"},
        "pad_sequence": NO_BATCH,
        "nested": NO_BATCH,
    },
    "dense_to_jagged": {
        "aten": TAIL | CUT,
        "mask": TAIL | CUT,
        "narrow": TAIL | CUT | {"b0"},
    },
    "jagged_dense_elementwise_add": {
        "aten": TAIL | CUT,
        "nested": TAIL | CUT | {"b0"},
    },
    "jagged_dense_bmm": {
        "padded": TAIL | CUT | {"b0"},
        "nested": TAIL | CUT | {"b0"},
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
# Whether these are right may hang on what memory held before, or on how numbers fall: tested one by one below.
BY_CHANCE = {
    ("jagged_sum", "segment_reduce"),
    ("jagged_sum", "sparse_csr"),
    ("jagged_softmax", "fbgemm"),
    ("jagged_mean", "segment_reduce"),
    ("jagged_mean", "sparse_csr"),
    ("jagged_mean", "nested"),
    ("jagged_layer_norm", "nested"),
    ("jagged_dense_elementwise_add", "fbgemm"),
    ("jagged_dense_bmm", "fbgemm"),
    ("jagged_dense_bmm", "grouped_mm"),
}


@pytest.mark.parametrize(("operator", "baseline"), [case for case in EAGER if case not in BY_CHANCE])
def test_an_eager_baseline_is_right_where_it_is_not_known_to_be_wrong(operator, baseline):
    known = KNOWN_WRONG.get(operator, {}).get(baseline, set())
    here = set(names(operator, "search", "holdout", "adversarial"))
    assert wrong_workloads(operator, baseline) - EITHER_WAY == known & here


@pytest.mark.parametrize("operator", ["jagged_sum", "jagged_mean"])
def test_segment_reduce_accumulates_bfloat16_in_bfloat16(operator):
    wrong = wrong_workloads(operator, "segment_reduce")
    assert wrong <= bfloat16_workloads(operator)
    assert {"bfloat16", "bf16_long_sum"} <= wrong


@pytest.mark.parametrize("operator", ["jagged_sum", "jagged_mean"])
def test_sparse_matrices_know_no_bfloat16(operator):
    assert wrong_workloads(operator, "sparse_csr") == bfloat16_workloads(operator)


def test_nested_mean_is_nan_in_empty_rows_and_nested_norms_round_bfloat16_early():
    assert {"all_empty", "empty_first", "mostly_empty", *NO_BATCH} <= wrong_workloads("jagged_mean", "nested")
    wrong = wrong_workloads("jagged_layer_norm", "nested")
    assert wrong <= TAIL | NO_BATCH | bfloat16_workloads("jagged_layer_norm")
    assert "bfloat16" in wrong


def test_grouped_products_need_rows_of_16_bytes():
    wrong = wrong_workloads("jagged_dense_bmm", "grouped_mm")
    assert not wrong & set(names("jagged_dense_bmm", "search"))
    assert {"odd", "wide", "d7", "truncated"} <= wrong


@pytest.mark.skipif(not has_fbgemm(), reason="fbgemm_gpu is not installed here")
@pytest.mark.parametrize(
    ("operator", "may_be_wrong", "is_wrong"),
    [
        ("jagged_softmax", TAIL | CUT | NO_BATCH, {"bfloat16"}),
        ("jagged_dense_elementwise_add", TAIL | CUT, {"tail_rows_nan"}),
        ("jagged_dense_bmm", set(), {"bfloat16"}),
    ],
)
def test_fbgemm_leaves_rows_unwritten_and_rounds_bfloat16_early(operator, may_be_wrong, is_wrong):
    wrong = wrong_workloads(operator, "fbgemm")
    assert wrong <= may_be_wrong | bfloat16_workloads(operator)
    assert is_wrong <= wrong


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
    baselines = operator_named(operator).baselines("cpu")
    module = inspect.getmodule(next(run for run in baselines.values()))
    monkeypatch.setattr(module, "has_fbgemm", lambda: False)
    assert any(name.startswith("fbgemm") for name in baselines) == has_fbgemm()
    assert not any(name.startswith("fbgemm") for name in operator_named(operator).baselines("cpu"))


@pytest.fixture
def graphs(monkeypatch):
    """What is compiled, on this CPU, for a device where sizes that are not known are dear. Nothing is generated."""
    graphs = []

    def compile_nothing(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compile = torch.compile
    monkeypatch.setattr(forms, "has_dear_divisions", lambda device: True)
    monkeypatch.setattr(torch, "compile", lambda form, **options: compile(form, backend=compile_nothing, **options))
    forms.compiled.cache_clear()
    yield graphs
    forms.compiled.cache_clear()


@pytest.mark.parametrize(
    ("operator", "baseline"),
    [
        ("jagged_to_padded_dense", "compiled_gather"),
        ("dense_to_jagged", "compiled_gather"),
        ("jagged_softmax", "compiled_gather"),
        *GPU_ONLY,
    ],
)
def test_on_a_gpu_a_form_is_compiled_for_each_set_of_sizes_but_not_for_each_number_of_rows(operator, baseline, graphs):
    operator = operator_named(operator)
    baseline = operator.baselines("cuda")[baseline]
    workloads = {w.name: w for w in operator.workloads}
    for count, name in enumerate(["main", "narrow"], start=1):
        for seed in range(4):
            inputs = operator.make_inputs(workloads[name], torch.Generator().manual_seed(seed))
            out = baseline(inputs)
            assert operator.check(workloads[name], out, operator.oracle(inputs), inputs) is None
        assert len(graphs) <= 2 * count, "one for the sizes, one more where a number turned out to change"


@pytest.mark.parametrize(("operator", "baseline"), GPU_ONLY)
def test_what_a_gpu_alone_is_given_is_right_with_rows_past_the_last_offset_and_cut_ones(operator, baseline, graphs):
    assert baseline not in operator_named(operator).baselines("cpu")
    for name in {"tail_rows_nan", "trunc_half", "empty_first", "int32_offsets"} & set(names(operator, "adversarial")):
        op, workload, inputs, expected = drawn(operator, name)
        assert op.check(workload, op.baselines("cuda")[baseline](inputs), expected, inputs) is None, name
    assert graphs
