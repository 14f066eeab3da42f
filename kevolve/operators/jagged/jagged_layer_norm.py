"""jagged_layer_norm: each row of a jagged tensor normalised over all of its numbers."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import ClassVar

import torch

from kevolve.operators.checks import FLOAT32_ROUNDOFF, SMALLEST, Allowed, Within, output_rounding
from kevolve.operators.inputs import VALUES
from kevolve.operators.jagged.gathered import Gathered, on_device
from kevolve.operators.jagged.jagged import JaggedOperator, bytes_moved, owners, spans, sum_error
from kevolve.operators.jagged.layer_norm_baselines import layer_norm_baselines
from kevolve.operators.operator import Argument, Baseline, Cost, Inputs, Outputs, Workload

EPSILON = 1e-6
MOST_OFFSET = 1 << 15  # numbers; in twice as many, roundings that all go one way move the mean by a standard deviation


class JaggedLayerNorm(JaggedOperator):
    """out[t, d] is (values[t, d] - mean) / sqrt(variance + 1e-6) over all numbers of t's batch entry, rows and columns.

    values: [total, dim] float32 or bfloat16; offsets: [batch + 1] int32 or int64. The variance is the biased one,
    there are no weights. out: [total, dim] in the dtype of values, computed in at least float32; it is 0 in rows past
    offsets[batch], and those rows are not read into any result. An entry that holds NaN or an infinity is NaN
    throughout, and that stays within the entry. Any size may be 0.

    C entry point (all pointers to contiguous memory, aligned to one element):
    `void jagged_layer_norm(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t batch, int64_t total,
    int64_t dim)`

    Source: operators.md J10.
    """

    name: ClassVar[str] = "jagged_layer_norm"
    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("values", "input", "value", ("total", "dim"), "rows of all batch entries, one after the other"),
        Argument("offsets", "input", "index", ("batch + 1",), "where each batch entry begins, and where the last ends"),
        Argument("out", "output", "value", ("total", "dim"), "the normalised rows; 0 in rows past offsets[batch]"),
        Argument("batch", "scalar", "int64"),
        Argument("total", "scalar", "int64", meaning="rows of values; may exceed offsets[batch]"),
        Argument("dim", "scalar", "int64"),
    )
    # The mean of squares minus the square of the mean is too far off on a lone span far from zero only now and then.
    odd_everywhere: ClassVar[tuple[str, ...]] = (*JaggedOperator.odd_everywhere, "lone")

    def oracle(self, inputs: Inputs) -> Outputs:
        values = inputs.values
        if on_device(values):
            return {"out": Gathered(inputs).normalised(values, EPSILON)}
        out = torch.zeros(values.shape, dtype=torch.float64)
        for start, end in spans(inputs):
            if start < end:
                centred = values[start:end].double()
                centred -= centred.mean()
                out[start:end] = centred / (centred.square().mean() + EPSILON).sqrt()
        return {"out": out}

    def baselines(self, device: str) -> Mapping[str, Baseline]:
        return layer_norm_baselines(device)

    def cost(self, inputs: Inputs) -> Cost:
        """Every used value read once, every result written once, the offsets read once.

        Five operations a used value: one for the sum, two for the sum of squares, two to scale and shift.
        """
        used = sum(end - start for start, end in spans(inputs)) * inputs.dim
        return Cost(bytes=bytes_moved(inputs, used + inputs.total * inputs.dim), flops=5 * used)

    def odd(self, workload: Workload, chooser: random.Random) -> list[Workload]:
        """Numbers far from zero only where one running float32 sum still tells their mean from another."""
        numbers = workload.sizes["max_length"] * workload.sizes["dim"]
        return [odd for odd in super().odd(workload, chooser) if odd.values != "offset" or numbers <= MOST_OFFSET]

    def allowed(self, workload: Workload, expected: Outputs, inputs: Inputs) -> Mapping[str, Allowed]:
        """Within what float32 sums in any order, and the few operations around them, lose; 0 exactly past the end.

        The mean is off by the error of a sum and shifts every result by as many standard deviations. The variance
        is off by the error of a sum of squares, which scales every result by half as much; taken as the mean of
        squares minus the square of the mean it loses more, and is accepted up to a 256th.
        """
        dtype = getattr(torch, workload.dtype)
        wanted, values = expected["out"], inputs.values.double()
        if not wanted.numel() or not inputs.batch:
            return {"out": Within(wanted, torch.zeros_like(wanted))}
        entry, takes_part = owners(inputs)
        terms = inputs.offsets.diff().double() * inputs.dim

        def mean(sums: torch.Tensor) -> torch.Tensor:
            """Over each entry, [batch], from sums over rows; rows of no entry left out: they may hold anything."""
            used = sums.masked_fill(~takes_part, 0.0)
            means: torch.Tensor = values.new_zeros(inputs.batch).index_add_(0, entry, used) / terms.clamp(min=1)
            return means

        # Products of matrices, as they are much quicker than reductions of the same.
        squares = mean((values[:, None, :] @ values[:, :, None]).flatten())
        spread = (squares - mean(values @ values.new_ones(inputs.dim)) ** 2).clamp(min=0).add_(EPSILON).sqrt_()
        error = sum_error(terms, workload.values) + 2 * FLOAT32_ROUNDOFF
        shift = error * squares.sqrt() / spread  # magnitudes are at most the root of their mean square on average
        # Squares are positive: a running sum loses the small ones one like the other.
        cancels = VALUES[workload.values].cancels
        squares_error = 4 * error if cancels else sum_error(terms, workload.values, most=1.0)
        scale = (squares_error * squares / spread.square()).clamp(max=2.0**-8) / 2 + shift**2
        share = scale + 4 * FLOAT32_ROUNDOFF
        tolerance = wanted.abs().mul_(share[entry][:, None]).add_(shift[entry][:, None])
        tolerance += output_rounding(wanted, dtype).add_(SMALLEST)
        return {"out": Within(wanted, tolerance.masked_fill_(~takes_part[:, None], 0.0))}
