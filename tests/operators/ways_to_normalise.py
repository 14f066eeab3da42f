"""Ways to compute a layer norm: honest float32 ones, and faulty ones with the workloads that must catch them."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import torch
from operator_cases import segments
from reductions import Way, last_row_reads_the_tail, rounded_to, with_dirty_tail

from kevolve.operators.operator import Inputs

Total = Callable[[torch.Tensor], torch.Tensor]  # [n, dim] -> []
Norm = Callable[[torch.Tensor], torch.Tensor]  # [n, dim] -> [n, dim]


def norms(norm: Norm) -> Way:
    def compute(inputs: Inputs) -> torch.Tensor:
        out = torch.zeros(inputs.total, inputs.dim)
        for _, rows in segments(inputs):
            if rows.start < rows.stop and inputs.dim:
                out[rows] = norm(inputs.values[rows].float())
        return out

    return compute


def one_by_one(x: torch.Tensor) -> torch.Tensor:
    """A single running float32 sum over all numbers."""
    return torch.tensor(numpy.add.accumulate(x.flatten().numpy())[-1])


def columns_first(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dim=0).sum()


def rows_first(x: torch.Tensor) -> torch.Tensor:
    return one_by_one(x.sum(dim=1))


def two_pass(total: Total = torch.sum, epsilon: float = 1e-6, correction: int = 0) -> Norm:
    def norm(x: torch.Tensor) -> torch.Tensor:
        centred = x - total(x) / x.numel()
        return centred / (total(centred * centred) / (x.numel() - correction) + epsilon).sqrt()

    return norm


def reciprocals(x: torch.Tensor) -> torch.Tensor:
    """Multiplications where the definition divides."""
    share = torch.tensor(x.numel()).float().reciprocal()
    centred = x - x.sum() * share
    return centred * ((centred * centred).sum() * share + 1e-6).rsqrt()


def scale_and_shift(x: torch.Tensor) -> torch.Tensor:
    """One multiply-add a number: x s - m s."""
    mean = x.mean()
    scale = ((x - mean).square().mean() + 1e-6).rsqrt()
    return x * scale - mean * scale


def one_pass(x: torch.Tensor) -> torch.Tensor:
    """The mean of squares minus the square of the mean."""
    mean = x.mean()
    return (x - mean) / (x.square().mean() - mean.square() + 1e-6).sqrt()


def sums_in(dtype: torch.dtype) -> Total:
    """A running sum over rows in a narrow type, after exact sums over columns."""

    def total(x: torch.Tensor) -> torch.Tensor:
        sum_so_far = torch.zeros((), dtype=dtype)
        for row in x.sum(dim=1).to(dtype):
            sum_so_far += row
        return sum_so_far.float()

    return total


def of_all(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    return (x - mean) / (variance + 1e-6).sqrt()


def by_column(x: torch.Tensor) -> torch.Tensor:
    return of_all(x, x.mean(dim=0), x.var(dim=0, correction=0))


def by_row(x: torch.Tensor) -> torch.Tensor:
    return of_all(x, x.mean(dim=1, keepdim=True), x.var(dim=1, correction=0, keepdim=True))


def padding_counted(x: torch.Tensor) -> torch.Tensor:
    """As if 8 rows of zeros belonged to it."""
    padded = torch.cat([x, 0 * x[:1].expand(8, -1)])
    return two_pass()(padded)[: len(x)]


def epsilon_outside(x: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean()
    return centred / (centred.square().mean().sqrt() + 1e-6)


def spread(inputs: Inputs) -> torch.Tensor:
    """NaN in one entry reaches all others."""
    return _norm(inputs) + 0 * inputs.values.float().sum()


_norm = norms(two_pass())

HONEST: dict[str, dict[str, Way]] = {
    "jagged_layer_norm": {
        "two passes": _norm,
        "one by one": norms(two_pass(one_by_one)),
        "columns first": norms(two_pass(columns_first)),
        "rows first": norms(two_pass(rows_first)),
        "reciprocals": norms(reciprocals),
        "scale and shift": norms(scale_and_shift),
    },
}

FAULTY: dict[str, dict[str, tuple[Way, tuple[str, ...]]]] = {
    "jagged_layer_norm": {
        "bfloat16 sums": (norms(two_pass(sums_in(torch.bfloat16))), ("small", "int64_offsets", "long_single_row")),
        "float16 sums": (norms(two_pass(sums_in(torch.float16))), ("small", "int64_offsets", "big_magnitude")),
        "values cut to TF32": (
            norms(lambda x: two_pass()(rounded_to(11)(x))),
            ("small", "int32_offsets", "d1025"),
        ),
        "one pass": (norms(one_pass), ("mean_far_from_zero", "mean_far_from_zero_long")),
        "unbiased variance": (norms(two_pass(correction=1)), ("small", "int64_offsets", "d7", "all_one", "one_number")),
        "no epsilon": (norms(two_pass(epsilon=0)), ("small_values", "small_values_bfloat16", "ones", "one_number")),
        "another epsilon": (norms(two_pass(epsilon=1e-5)), ("small_values", "small_values_bfloat16")),
        "epsilon outside the root": (norms(epsilon_outside), ("small_values",)),
        "each column by itself": (norms(by_column), ("small", "int64_offsets", "bf16_normal")),
        "each row by itself": (norms(by_row), ("small", "int64_offsets", "bf16_normal")),
        "the mean not subtracted": (
            norms(lambda x: x / (x.square().mean() + 1e-6).sqrt()),
            ("small", "int64_offsets", "bf16_shifted_long", "mean_far_from_zero"),
        ),
        "not scaled": (norms(lambda x: x - x.mean()), ("small", "big_magnitude", "wide_magnitudes")),
        "padding counted": (norms(padding_counted), ("small", "int64_offsets", "b1")),
        "the tail is read": (
            lambda inputs: _norm(last_row_reads_the_tail(inputs)),
            ("tail_rows_nan", "tail_rows_nan_bfloat16", "all_empty_tail"),
        ),
        "the tail is left as it was": (with_dirty_tail(_norm), ("tail_rows_nan", "all_empty_tail", "b0_tail")),
        "NaN spreads": (spread, ("nan_in_one_row", "nan_in_one_row_bfloat16", "tail_rows_nan")),
        "NaN made 0": (
            norms(lambda x: two_pass()(x).nan_to_num(0)),
            ("nan_in_one_row", "pos_inf_cell", "neg_inf_row"),
        ),
    },
}
