"""The derived check: honest float32 programs pass whatever their order of summation, half precision does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from own_operators import MATMUL, operator, row_wise

from kevolve.operators.custom.operator import CustomOperator
from kevolve.operators.operator import Inputs


def sequential(values: torch.Tensor) -> torch.Tensor:
    """float32 [rows]: each row added up from left to right, one rounding a term, as a plain loop does."""
    return torch.from_numpy(np.add.accumulate(values.numpy(), axis=-1, dtype=np.float32)[..., -1].copy())


def sum_in_order(inputs: Inputs) -> torch.Tensor:
    return sequential(inputs.x)


def softmax_in_order(inputs: Inputs) -> torch.Tensor:
    powers = torch.exp(inputs.x - inputs.x.amax(-1, keepdim=True))
    return powers * (1 / sequential(powers))[:, None]


def layer_norm_in_order(inputs: Inputs) -> torch.Tensor:
    x, dim = inputs.x, inputs.dim
    centred = x - (sequential(x) / dim)[:, None]
    return centred / torch.sqrt(sequential(centred * centred) / dim + 1e-5)[:, None]


def matmul_in_order(inputs: Inputs) -> torch.Tensor:
    out = torch.zeros(inputs.m, inputs.n)
    for k in range(inputs.k):
        out += inputs.a[:, k : k + 1] * inputs.b[k]
    return out


def gelu_as_written(inputs: Inputs) -> torch.Tensor:
    """1 + erf cancels far to the left: float32 has few digits there, and every float32 program loses them."""
    return 0.5 * inputs.x * (1 + torch.erf(inputs.x * 0.70710678))


LAYER_NORM = row_wise("torch.nn.functional.layer_norm(x, (x.shape[-1],))", 30, 3000)
HONEST: dict[str, tuple[str, Callable[[Inputs], torch.Tensor]]] = {
    "a sum of 100,000 terms": (row_wise("x.sum(-1)", 12, 100_000), sum_in_order),
    "a sum of 100,000 positive terms": (row_wise("(x * x).sum(-1)", 12, 100_000), lambda i: sequential(i.x * i.x)),
    "softmax": (row_wise("torch.softmax(3 * x, -1)", 40, 5000), lambda i: softmax_in_order(tripled(i))),
    "layer norm": (LAYER_NORM, layer_norm_in_order),
    "matmul": (MATMUL, matmul_in_order),
    "gelu": (row_wise("torch.nn.functional.gelu(4 * x)"), lambda i: gelu_as_written(Inputs({"x": 4 * i.x}, {}))),
}


def tripled(inputs: Inputs) -> Inputs:
    return Inputs({"x": 3 * inputs.x}, inputs.scalars)


def verdict(made: CustomOperator, compute: Callable[[Inputs], torch.Tensor], seed: int) -> str:
    workload = made.workloads[0]
    given = made.make_inputs(workload, torch.Generator().manual_seed(seed))
    mismatch = made.check(workload, {"out": compute(given)}, made.oracle(given), given)
    return f"{mismatch.reason}: {mismatch.detail}" if mismatch else ""


@pytest.mark.parametrize("name", HONEST)
def test_honest_float32_in_another_order_passes_and_half_precision_does_not(name: str) -> None:
    text, compute = HONEST[name]
    made = operator(text)
    for seed in range(3):
        assert verdict(made, compute, seed) == ""

    def in_half(half: torch.dtype) -> Callable[[Inputs], torch.Tensor]:
        return lambda given: made.parts.reference(*(v.to(half) for v in made.values(given).values())).float()

    assert verdict(made, in_half(torch.bfloat16), 0)
    assert verdict(made, in_half(torch.float16), 0)


def test_one_wrong_element_is_found_even_where_the_answer_is_small() -> None:
    made = operator(row_wise("torch.exp(4 * x)"))

    def without_the_small_ones(given: Inputs) -> torch.Tensor:
        right = torch.exp(4 * given.x)
        return torch.where(right < 0.01, 0.0, right)

    assert "further from the reference" in verdict(made, without_the_small_ones, 0)


def test_integers_must_be_exact_and_nan_and_infinity_the_same() -> None:
    made = operator(row_wise('{"where": x.argmax(-1), "log": torch.log(x)}'))
    workload = made.workloads[0]
    given = made.make_inputs(workload, torch.Generator().manual_seed(0))
    expected = made.oracle(given)
    right = {"where": expected["where"].clone(), "log": expected["log"].float()}
    assert bool(right["log"].isnan().any())
    assert made.check(workload, right, expected, given) is None
    off_by_one = {**right, "where": right["where"] + (torch.arange(40) == 7)}
    assert "where" in str(made.check(workload, off_by_one, expected, given))
    zero_for_nan = {**right, "log": right["log"].nan_to_num()}
    assert "NaN belongs" in str(made.check(workload, zero_for_nan, expected, given))
    short = {**right, "where": right["where"].int()}
    assert "dtype" in str(made.check(workload, short, expected, given))


def test_a_bfloat16_answer_may_be_off_by_its_own_rounding_and_no_more() -> None:
    text = row_wise("x.sum(-1)", 64, 4000).replace("dim=4000", 'dim=4000, dtype="bfloat16"')
    made = operator(text)
    assert verdict(made, lambda given: given.x.float().sum(-1).bfloat16(), 0) == ""

    def summed_in_bfloat16(given: Inputs) -> torch.Tensor:
        total = torch.zeros(64, dtype=torch.bfloat16)
        for column in given.x.unbind(-1):
            total += column
        return total

    assert verdict(made, summed_in_bfloat16, 0)
