"""Wrong answers are rejected, honest float32 ones accepted. What took no work at all: test_screening.py."""

from __future__ import annotations

import random

import pytest
import torch
from faulty_and_honest import FAULTY, HONEST
from operator_cases import OPERATORS, drawn, names, operator_named, right_answer, value_dtype, verdict
from ways_to_normalise import norms, one_by_one, two_pass

from kevolve.operators.checks import Bits, Exact

EVERY = [(operator, name) for operator in OPERATORS for name in names(operator, "search", "holdout", "adversarial")]


@pytest.mark.parametrize("operator", OPERATORS)
def test_one_wrong_element_among_all_is_found_and_named(operator):
    right = right_answer(operator, "small").clone()
    place = torch.unravel_index(right.abs().argmax(), right.shape)
    right[place] *= 1.001
    mismatch = verdict(operator, "small", right)
    assert mismatch is not None
    assert "rounding" in mismatch.reason or "copied" in mismatch.reason
    assert mismatch.detail.startswith(f"out[{', '.join(str(int(i)) for i in place)}]: expected ")
    assert f"1 of {right.numel()} elements" in mismatch.detail


@pytest.mark.parametrize(("operator", "name"), EVERY)
def test_the_rounded_oracle_is_accepted_on_every_workload(operator, name):
    assert verdict(operator, name, right_answer(operator, name)) is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_nan_or_infinity_where_a_number_belongs_is_rejected(operator, bad):
    for name in ("int32_offsets", "bf16_normal", "wide_magnitudes"):
        out = right_answer(operator, name).clone()
        out[0, 3] = bad
        assert verdict(operator, name, out) is not None, name


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_number_where_nan_or_infinity_belongs_is_rejected(operator):
    for name in ("nan_in_one_row", "nan_in_one_row_bfloat16", "pos_inf_cell", "neg_inf_row"):
        right = right_answer(operator, name)
        assert not bool(right.isfinite().all()), name
        for number in (0.0, 1.0, 3e38):
            finite = torch.where(right.isfinite(), right, torch.full_like(right, number))
            mismatch = verdict(operator, name, finite)
            assert mismatch is not None, (name, number)
            assert "NaN" in mismatch.reason or "infinity" in mismatch.reason


@pytest.mark.parametrize("operator", OPERATORS)
def test_shape_dtype_and_names_must_be_exact(operator):
    op, workload, inputs, expected = drawn(operator, "int32_offsets")
    right = right_answer(operator, "int32_offsets")
    for outputs, told in (
        ({"out": right.flatten()}, "shape"),
        ({"out": right[:-1]}, "shape"),
        ({"out": right[None]}, "shape"),
        ({"out": right.double()}, "dtype"),
        ({"out": right.bfloat16()}, "dtype"),
        ({"result": right}, "names"),
        ({}, "names"),
    ):
        mismatch = op.check(workload, outputs, expected, inputs)
        assert mismatch is not None
        assert told in mismatch.reason


@pytest.mark.parametrize(("operator", "way"), [(operator, way) for operator in OPERATORS for way in HONEST[operator]])
def test_honest_float32_arithmetic_is_accepted_on_every_workload(operator, way):
    for name in ("small", *names(operator, "adversarial")):
        _, workload, inputs, _ = drawn(operator, name)
        out = HONEST[operator][way](inputs).to(value_dtype(workload))
        assert verdict(operator, name, out) is None, name


@pytest.mark.parametrize(
    ("operator", "fault", "caught_by"),
    [(operator, fault, names) for operator in OPERATORS for fault, (_, names) in FAULTY[operator].items()],
)
def test_faulty_arithmetic_is_rejected_where_it_should_show(operator, fault, caught_by):
    wrong, _ = FAULTY[operator][fault]
    for name in caught_by:
        _, workload, inputs, _ = drawn(operator, name)
        assert verdict(operator, name, wrong(inputs).to(value_dtype(workload))) is not None, name


def test_an_exact_sum_may_be_cut_off_where_bfloat16_has_no_place_for_it():
    check = Exact(torch.tensor([3.0, -275.0], dtype=torch.float64))
    for right in ([3.0, -274.0], [3.0, -276.0]):
        out = torch.tensor(right, dtype=torch.bfloat16)
        assert check.differs("out", out) is None
        assert check.quickly(out.dtype)(out)
    for wrong in ([3.0, -272.0], [3.015625, -276.0], [3.0, float("nan")]):
        out = torch.tensor(wrong, dtype=torch.bfloat16)
        assert check.differs("out", out) is not None
        assert not check.quickly(out.dtype)(out)
    assert check.differs("out", torch.tensor([3.0, -275.00003])) is not None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_copy_is_compared_bit_by_bit(dtype):
    wanted = torch.tensor([1.0, -0.0, torch.nan, torch.inf], dtype=dtype)
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    assert Bits(wanted).differs("out", wanted.clone()) is None
    for index, told in ((0, "bit for bit"), (1, "bit for bit"), (2, "bit for bit"), (3, "NaN")):
        other = wanted.clone()
        other.view(bits)[index] ^= 1
        assert told in Bits(wanted).differs("out", other).reason
    positive = wanted.clone()
    positive[1] = 0.0
    assert Bits(wanted).differs("out", positive) is not None


@pytest.mark.parametrize(("operator", "name"), EVERY)
def test_a_check_for_many_answers_says_what_a_single_check_says(operator, name):
    op, workload, inputs, _ = drawn(operator, name)
    checker, right = op.checker(workload, inputs), right_answer(operator, name)
    assert checker({"out": right}) is None
    for wrong in (right * (1 + 2.0**-5), torch.zeros_like(right), right.nan_to_num(0.5, 0.5, 0.5)):
        assert (checker({"out": wrong}) is None) == (verdict(operator, name, wrong) is None)


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_bounds_of_a_quick_check_are_the_tolerance_itself(operator):
    for name in names(operator, "adversarial")[::4]:
        op, workload, inputs, expected = drawn(operator, name)
        if not expected["out"].isfinite().all():
            continue  # a quick check leaves those to the other
        for output, allowed in op.allowed(workload, expected, inputs).items():
            is_right = allowed.quickly(value_dtype(workload))
            got = right_answer(operator, name)
            for factor in torch.logspace(-8, -1, 15).tolist():
                moved = got + got * factor
                assert is_right(moved) == (allowed.differs(output, moved) is None), (name, factor)


@pytest.mark.parametrize(("operator", "name"), EVERY)
def test_a_part_of_a_call_is_complete_in_itself(operator, name):
    op, workload, inputs, _ = drawn(operator, name)
    right, rng = right_answer(operator, name), torch.Generator().manual_seed(3)
    for _ in range(3):
        given, answer = op.sample(inputs, {"out": right}, rng)
        assert op.check(workload, answer, op.oracle(given), given) is None
        if workload.role == "search":
            zeros = {"out": torch.zeros_like(answer["out"])}
            assert op.check(workload, zeros, op.oracle(given), given) is not None


@pytest.mark.parametrize("size", ["main", "skewed", "narrow", "wide", "full", "giant"])
@pytest.mark.parametrize("seed", [0, 1])
def test_one_running_float32_sum_is_honest_on_odd_contents_of_every_size(size, seed):
    """They come at the sizes that are timed, where the plain program sums 100,000 numbers one by one."""
    operator = operator_named("jagged_layer_norm")
    timed = next(workload for workload in operator.workloads if workload.name == size)
    for odd in operator.odd(timed, random.Random(seed)):
        rng = torch.Generator().manual_seed(seed)
        drawn = operator.make_inputs(odd, rng)
        inputs = operator.refresh(drawn, odd, rng)  # as in timed calls: other lengths, so that spans are mixed
        answer = norms(two_pass(one_by_one))(inputs).to(value_dtype(odd))
        assert operator.check(odd, {"out": answer}, operator.oracle(inputs), inputs) is None, odd.name
