"""Coarse arithmetic has the digits of its dtype and no more, whatever an oracle is written with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kevolve.operators.coarse import LONGEST, Coarse


def half(compute: Callable[[], torch.Tensor], dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    with Coarse(dtype):
        return compute()


def test_a_running_sum_of_ones_stands_still_where_a_half_would_be() -> None:
    ones = torch.ones(20 * LONGEST, 3, dtype=torch.float64)
    assert half(lambda: ones.sum(dim=0)).tolist() == [20 * 256.0] * 3
    assert half(lambda: ones.mean()).item() == pytest.approx(0.5, rel=0.01)
    assert half(lambda: ones.sum(dim=0), torch.float32).tolist() == [20.0 * LONGEST] * 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x.sum(),
        lambda x: x.sum(dim=1, keepdim=True),
        lambda x: x.mean(dim=(0, 1)),
        lambda x: x @ x.T,
        lambda x: torch.bmm(x[None], x.T[None]),
        lambda x: torch.nn.functional.linear(x, x, x[:, 0]),
        lambda x: torch.softmax(x, 0),
        lambda x: torch.log_softmax(x, -1),
        lambda x: x.exp() / 3,
        lambda x: torch.zeros_like(x).index_add_(0, torch.arange(70) % 7, x),
    ],
)
def test_results_are_near_the_exact_ones_and_have_no_more_digits_than_the_dtype(
    compute: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype
) -> None:
    x = torch.randn(70, 70, generator=torch.Generator().manual_seed(1)).double()
    exact, got = compute(x), half(lambda: compute(x), dtype)
    assert got.dtype == exact.dtype
    assert got.shape == exact.shape
    assert torch.equal(got, got.to(dtype).to(got.dtype))
    assert torch.allclose(got, exact, rtol=0, atol=100 * torch.finfo(dtype).eps * float(exact.abs().max()))
    assert not torch.equal(got, exact)


def test_what_is_written_in_place_is_rounded_and_inputs_stay_as_they_are() -> None:
    x = torch.full((4, 4), 1 + 2.0**-20, dtype=torch.float64)
    before = x.clone()

    def compute() -> torch.Tensor:
        out = torch.zeros(4, 4, dtype=torch.float64)
        out[1:3] = x[1:3]
        out[0] += x[0]
        return out

    assert half(compute).tolist() == [[1.0] * 4] * 3 + [[0.0] * 4]
    assert torch.equal(x, before)


def test_empty_sums_and_what_is_not_finite_are_as_ever() -> None:
    empty = torch.zeros(0, 5, dtype=torch.float64)
    assert half(lambda: empty.sum(dim=0)).tolist() == [0.0] * 5
    assert half(lambda: torch.softmax(empty, 0)).shape == (0, 5)
    assert half(lambda: empty @ torch.ones(5, 2, dtype=torch.float64)).shape == (0, 2)
    odd = torch.tensor([[torch.nan, torch.inf], [1.0, 1.0]], dtype=torch.float64)
    assert half(lambda: odd.sum(dim=0)).isnan().tolist() == [True, False]
    assert half(lambda: torch.softmax(odd, 0)).isnan().all()
    assert half(lambda: torch.arange(300).sum()).item() == 44850, "whole numbers are not rounded"
