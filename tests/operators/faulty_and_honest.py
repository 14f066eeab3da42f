"""Ways to compute the operators: honest float32 ones must pass, faulty ones fail on the workloads that they name."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import ways_to_copy
import ways_to_multiply
import ways_to_normalise
from operator_cases import segments
from reductions import (
    Rows,
    Way,
    blocks_of_8,
    fused,
    last_row_reads_the_tail,
    pairwise,
    rounded_to,
    sequential,
    split,
    unbounded,
    without_last,
)

from kevolve.operators.operator import Inputs


def sums(rows_sum: Rows, dtype: torch.dtype = torch.float32) -> Way:
    def compute(inputs: Inputs) -> torch.Tensor:
        values = inputs.values.to(dtype)
        out = torch.zeros(inputs.batch, inputs.dim, dtype=dtype)
        for b, rows in segments(inputs):
            if rows.start < rows.stop:
                out[b] = rows_sum(values[rows])
        return out

    return compute


def means(rows_sum: Rows, dtype: torch.dtype = torch.float32) -> Way:
    def compute(inputs: Inputs) -> torch.Tensor:
        lengths = inputs.offsets.diff().clamp(min=1)[:, None]
        return sums(rows_sum, dtype)(inputs).float() / lengths

    return compute


def softmaxes(column_softmax: Rows) -> Way:
    def compute(inputs: Inputs) -> torch.Tensor:
        out = torch.zeros(inputs.total, inputs.dim)
        for _, rows in segments(inputs):
            if rows.start < rows.stop:
                out[rows] = column_softmax(inputs.values[rows].float())
        return out

    return compute


def polynomial_exp(x: torch.Tensor) -> torch.Tensor:
    """exp as vector kernels write it: split off a power of two, then a polynomial; about 2 units in the last place."""
    whole = torch.round(x.clamp(-87.0, 88.0) * 1.4426950408889634)
    rest = (x.clamp(-87.0, 88.0) - whole * 0.693359375) - whole * -2.12194440e-4
    powers = torch.full_like(rest, 1 / 5040)
    for k in range(6, -1, -1):
        powers = powers * rest + 1 / math.factorial(k)
    return torch.where(x.isnan(), x, torch.ldexp(powers, whole.int()))


def textbook(exp: Callable[[torch.Tensor], torch.Tensor], total: Rows = pairwise) -> Rows:
    def compute(x: torch.Tensor) -> torch.Tensor:
        powers = exp(x - x.amax(dim=0))
        return powers / total(powers)

    return compute


def exp2_of_scaled(x: torch.Tensor) -> torch.Tensor:
    """exp2(x c - m c), times a reciprocal: saves a multiplication where there is a fused multiply-add."""
    scaled = x * 1.4426950408889634
    powers = torch.exp2(scaled - scaled.amax(dim=0))
    return powers * (1 / pairwise(powers))


def online(x: torch.Tensor) -> torch.Tensor:
    """One pass with a running maximum, in blocks of 8 rows; only for finite columns, others as in the textbook."""
    largest, total = torch.full_like(x[0], -math.inf), torch.zeros_like(x[0])
    for block in x.split(8):
        higher = torch.maximum(largest, block.amax(dim=0))
        total = total * (largest - higher).exp() + (block - higher).exp().sum(dim=0)
        largest = higher
    return torch.where(x.isfinite().all(dim=0), (x - largest).exp() / total, textbook(torch.exp)(x))


def flushed(x: torch.Tensor) -> torch.Tensor:
    """Results below the smallest normal number become 0, as under flush-to-zero."""
    result = textbook(torch.exp)(x)
    return torch.where(result.abs() < torch.finfo(torch.float32).tiny, 0 * result, result)


HONEST: dict[str, dict[str, Way]] = {
    "jagged_sum": {
        "sequential": sums(sequential),
        "backwards": sums(lambda rows: sequential(rows.flip(0))),
        "pairwise": sums(pairwise),
        "split": sums(split),
        "fused": sums(fused),
        "ascending": sums(lambda rows: sequential(rows.sort(dim=0).values)),
    },
    "jagged_softmax": {
        "textbook": softmaxes(textbook(torch.exp)),
        "sequential": softmaxes(textbook(torch.exp, sequential)),
        "polynomial": softmaxes(textbook(polynomial_exp)),
        "exp2": softmaxes(exp2_of_scaled),
        "online": softmaxes(online),
        "flushed": softmaxes(flushed),
    },
    "jagged_mean": {
        "sequential": means(sequential),
        "backwards": means(lambda rows: sequential(rows.flip(0))),
        "pairwise": means(pairwise),
        "split": means(split),
        "fused": means(fused),
        "reciprocal": sums(lambda rows: pairwise(rows) * torch.tensor(len(rows)).float().reciprocal()),
        "library": sums(lambda rows: torch.mean(rows, dim=0)),
    },
    **ways_to_copy.HONEST,
    **ways_to_normalise.HONEST,
    **ways_to_multiply.HONEST,
}


def spread(way: Way) -> Way:
    """Masks by multiplication, so that a NaN of one row poisons its column in all others."""

    def compute(inputs: Inputs) -> torch.Tensor:
        return way(inputs) + 0 * inputs.values.float().nansum() + 0 * inputs.values.float().sum(dim=0)

    return compute


def half_total(dtype: torch.dtype) -> Rows:
    def compute(rows: torch.Tensor) -> torch.Tensor:
        return sequential(rows.to(dtype)).float()

    return compute


def maximum_from_zero(x: torch.Tensor) -> torch.Tensor:
    powers = (x - x.amax(dim=0).clamp(min=0)).exp()
    return powers / powers.sum(dim=0)


def no_maximum(x: torch.Tensor) -> torch.Tensor:
    return x.exp() / x.exp().sum(dim=0)


def nan_to_zero(x: torch.Tensor) -> torch.Tensor:
    return textbook(torch.exp)(x).nan_to_num(0)


def crude_exp(x: torch.Tensor) -> torch.Tensor:
    """A polynomial of degree 3: five digits."""
    whole = torch.round(x * 1.4426950408889634)
    rest = x - whole * 0.6931471805599453
    return torch.ldexp(1 + rest * (1 + rest * (0.5 + rest / 6)), whole.nan_to_num(0, 0, -150).int())


def nan_for_empty_rows(inputs: Inputs) -> torch.Tensor:
    """torch.mean's answer for an empty row is NaN."""
    return sums(pairwise)(inputs) / inputs.offsets.diff()[:, None]


_sum, _mean, _softmax = sums(pairwise), means(pairwise), softmaxes(textbook(torch.exp))

FAULTY: dict[str, dict[str, tuple[Way, tuple[str, ...]]]] = {
    "jagged_sum": {
        "bfloat16 accumulation": (
            sums(sequential, torch.bfloat16),
            ("small", "bf16_normal", "wide_magnitudes", "bf16_long_sum"),
        ),
        "float16 accumulation": (
            sums(sequential, torch.float16),
            ("small", "bf16_normal", "big_magnitude", "bf16_shifted_long"),
        ),
        "pairs in bfloat16": (
            sums(lambda rows: pairwise((rows[::2] + torch.cat([rows, 0 * rows[:1]])[1::2]).bfloat16().float())),
            ("small", "bf16_normal", "tail_rows_nan_bfloat16"),
        ),
        "values cut to TF32": (
            sums(lambda rows: pairwise(rounded_to(11)(rows))),
            ("small", "int32_offsets", "d1025"),
        ),
        "the last row of each entry missing": (
            sums(without_last),
            ("small", "all_one", "b1", "long_single_row", "len_eq_tile", "integers_long"),
        ),
        "only whole blocks of 8 rows": (sums(blocks_of_8), ("len_tile_plus_minus_1", "all_one", "b1", "integers")),
        "the tail is read": (
            lambda inputs: _sum(last_row_reads_the_tail(inputs)),
            ("tail_rows_nan", "tail_rows_nan_bfloat16", "all_empty_tail"),
        ),
        "NaN spreads": (spread(_sum), ("nan_in_one_row", "nan_in_one_row_bfloat16", "tail_rows_nan", "pos_inf_cell")),
        "NaN and infinities dropped": (
            sums(lambda rows: pairwise(rows.nan_to_num(0, 0, 0))),
            ("nan_in_one_row", "pos_inf_cell", "neg_inf_cells", "neg_inf_row"),
        ),
        "the mean instead": (sums(lambda rows: pairwise(rows) / len(rows)), ("small", "integers", "cancellation")),
    },
    "jagged_softmax": {
        "bfloat16 sum": (
            softmaxes(textbook(torch.exp, half_total(torch.bfloat16))),
            ("small", "bf16_normal", "long_single_row", "bf16_long_sum"),
        ),
        "float16 sum": (softmaxes(textbook(torch.exp, half_total(torch.float16))), ("small", "long_single_row")),
        "values cut to TF32": (
            softmaxes(lambda x: textbook(torch.exp)(rounded_to(11)(x))),
            ("small", "int32_offsets", "big_magnitude"),
        ),
        "an exponential of five digits": (softmaxes(textbook(crude_exp)), ("small", "int32_offsets", "d1025")),
        "no maximum": (softmaxes(no_maximum), ("big_magnitude", "big_magnitude_bfloat16", "neg_all")),
        "a maximum that starts from 0": (softmaxes(maximum_from_zero), ("neg_all",)),
        "max_length ignored": (
            lambda inputs: _softmax(unbounded(inputs)),
            ("trunc_half", "trunc_half_int32", "trunc_half_nan", "trunc_half_nan_bfloat16", "n0"),
        ),
        "the tail is read": (
            lambda inputs: _softmax(last_row_reads_the_tail(inputs)),
            ("tail_rows_nan", "tail_rows_nan_bfloat16"),
        ),
        "the tail is left as it was": (
            lambda inputs: torch.where(_softmax(unbounded(inputs)) == 0, 1e-30, _softmax(inputs)),
            ("tail_rows_nan", "all_empty_tail", "b0_tail", "n0"),
        ),
        "NaN spreads": (spread(_softmax), ("nan_in_one_row", "nan_in_one_row_bfloat16", "tail_rows_nan")),
        "NaN made 0": (softmaxes(nan_to_zero), ("nan_in_one_row", "pos_inf_cell", "neg_inf_row")),
        "normalised over columns": (softmaxes(lambda x: x.softmax(dim=1)), ("small", "int64_offsets", "d1")),
        "not normalised": (softmaxes(lambda x: (x - x.amax(dim=0)).exp()), ("small", "bf16_normal")),
    },
    "jagged_mean": {
        "bfloat16 accumulation": (
            means(sequential, torch.bfloat16),
            ("small", "bf16_normal", "wide_magnitudes", "bf16_long_sum"),
        ),
        "float16 accumulation": (means(sequential, torch.float16), ("small", "bf16_normal", "bf16_shifted_long")),
        "values cut to TF32": (
            means(lambda rows: pairwise(rounded_to(11)(rows))),
            ("small", "int32_offsets", "d1025"),
        ),
        "the sum instead": (_sum, ("small", "integers", "cancellation", "bf16_normal")),
        "one row too few counted": (
            lambda inputs: _sum(inputs) / (inputs.offsets.diff() - 1)[:, None],
            ("small", "all_one", "integers"),
        ),
        "one row too many counted": (
            lambda inputs: _sum(inputs) / (inputs.offsets.diff() + 1)[:, None],
            ("small", "all_one", "b1", "bf16_normal"),
        ),
        "NaN for an empty row": (nan_for_empty_rows, ("empty_first", "empty_last", "empty_run", "all_empty")),
        "the last row of each entry missing": (means(without_last), ("small", "all_one", "b1", "long_single_row")),
        "only whole blocks of 8 rows": (means(blocks_of_8), ("len_tile_plus_minus_1", "all_one", "b1", "integers")),
        "the tail is read": (
            lambda inputs: _mean(last_row_reads_the_tail(inputs)),
            ("tail_rows_nan", "tail_rows_nan_bfloat16", "all_empty_tail"),
        ),
        "NaN spreads": (spread(_mean), ("nan_in_one_row", "nan_in_one_row_bfloat16", "tail_rows_nan", "pos_inf_cell")),
        "NaN and infinities dropped": (
            means(lambda rows: pairwise(rows.nan_to_num(0, 0, 0))),
            ("nan_in_one_row", "pos_inf_cell", "neg_inf_cells", "neg_inf_row"),
        ),
    },
    **ways_to_copy.FAULTY,
    **ways_to_normalise.FAULTY,
    **ways_to_multiply.FAULTY,
}
