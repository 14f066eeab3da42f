"""jagged_softmax: the softmax over each row of a jagged tensor, column by column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch

from kevolve.operators.checks import FLOAT32_ROUNDOFF, SMALLEST, Allowed, Within, output_rounding
from kevolve.operators.jagged.gathered import Gathered, on_device
from kevolve.operators.jagged.jagged import JaggedOperator, owners, spans, sum_error
from kevolve.operators.jagged.softmax_baselines import softmax_baselines
from kevolve.operators.operator import Argument, Baseline, Cost, Inputs, Outputs, Workload


class JaggedSoftmax(JaggedOperator):
    """out[t, d] is the softmax of values[:, d] over the rows of the batch entry that row t belongs to.

    values: [total, dim] float32 or bfloat16; offsets: [batch + 1] int32 or int64. Of each entry only the first
    max_length rows take part. out: [total, dim] in the dtype of values, computed in at least float32; it is 0 in
    rows past an entry's first max_length and past offsets[batch], and those rows are not read into any result.
    As in torch.softmax a column of an entry that holds NaN or +inf, or only -inf, is NaN throughout, and that
    stays within the entry and column. Any size may be 0.

    C entry point (all pointers to contiguous memory, aligned to one element):
    `void jagged_softmax(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t batch, int64_t total,
    int64_t dim, int64_t max_length)`

    Source: operators.md J9.
    """

    name: ClassVar[str] = "jagged_softmax"
    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("values", "input", "value", ("total", "dim"), "rows of all batch entries, one after the other"),
        Argument("offsets", "input", "index", ("batch + 1",), "where each batch entry begins, and where the last ends"),
        Argument("out", "output", "value", ("total", "dim"), "the softmax; 0 in rows that take no part"),
        Argument("batch", "scalar", "int64"),
        Argument("total", "scalar", "int64", meaning="rows of values; may exceed offsets[batch]"),
        Argument("dim", "scalar", "int64"),
        Argument("max_length", "scalar", "int64", meaning="rows of each batch entry that take part, at most"),
    )

    def oracle(self, inputs: Inputs) -> Outputs:
        values = inputs.values
        if on_device(values):
            return {"out": Gathered(inputs).softmax(values)}
        out = torch.zeros(values.shape, dtype=torch.float64)
        for start, end in spans(inputs):
            out[start:end] = torch.softmax(values[start:end].double(), dim=0)
        return {"out": out}

    def baselines(self, device: str) -> Mapping[str, Baseline]:
        return softmax_baselines(device)

    def cost(self, inputs: Inputs) -> Cost:
        """Every used value read once, every result written once, the offsets read once.

        Five operations a used value: maximum, subtraction, exponential, sum, division.
        """
        used = sum(end - start for start, end in spans(inputs)) * inputs.dim
        values, offsets = inputs.values, inputs.offsets
        moved = (used + inputs.total * inputs.dim) * values.element_size() + offsets.numel() * offsets.element_size()
        return Cost(bytes=moved, flops=5 * used)

    def allowed(self, workload: Workload, expected: Outputs, inputs: Inputs) -> Mapping[str, Allowed]:
        """Within what float32 arithmetic in any order loses, relative to each element; 0 exactly where 0 belongs.

        8 roundoffs for the exponential and the division, what a sum loses (exp(0) need not come out as 1, so equal
        terms are no better), and 4 times the column's greatest magnitude for the exponent (which forms like
        exp2(x c - m c) round at that magnitude); never more than a 256th.
        """
        dtype = getattr(torch, workload.dtype)
        wanted = expected["out"]
        if not wanted.numel() or not inputs.batch:
            return {"out": Within(wanted, torch.zeros_like(wanted))}
        # Only finite magnitudes are rounded: a masked (-inf) cell costs its column no accuracy.
        magnitudes = inputs.values.nan_to_num(0, 0, 0).abs_()
        lengths = [end - start for start, end in spans(inputs)]
        greatest = _greatest(inputs, magnitudes.double())
        sums = sum_error(wanted.new_tensor(lengths).clamp_(min=0), workload.values)[:, None]
        share = ((8 + 4 * greatest) * FLOAT32_ROUNDOFF + sums).clamp_(max=2.0**-8)
        entry, takes_part = owners(inputs)
        tolerance = share[entry].mul_(wanted).add_(output_rounding(wanted, dtype)).add_(SMALLEST)
        return {"out": Within(wanted, tolerance.masked_fill_(~takes_part[:, None], 0.0))}


def _greatest(inputs: Inputs, magnitudes: torch.Tensor) -> torch.Tensor:
    """float64 [batch, dim]: the greatest over each span of `magnitudes`, float64 [total, dim]; 0 where it is empty."""
    if on_device(magnitudes):
        gathered = Gathered(inputs)
        return gathered.greatest(magnitudes[gathered.rows], 0.0)
    greatest = torch.zeros(inputs.batch, inputs.dim, dtype=torch.float64)
    for b, (start, end) in enumerate(spans(inputs)):
        if start < end:
            greatest[b] = magnitudes[start:end].amax(dim=0)
    return greatest
