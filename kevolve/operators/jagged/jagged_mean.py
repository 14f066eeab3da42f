"""jagged_mean: the mean over each row of a jagged tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch

from kevolve.operators.checks import FLOAT32_ROUNDOFF, SMALLEST, Allowed, Within, output_rounding
from kevolve.operators.jagged.gathered import Gathered, on_device, sum_spans
from kevolve.operators.jagged.jagged import JaggedOperator, bytes_moved, spans, sum_error
from kevolve.operators.jagged.mean_baselines import mean_baselines
from kevolve.operators.operator import Argument, Baseline, Cost, Inputs, Outputs, Workload


class JaggedMean(JaggedOperator):
    """out[b, :] is the mean of values[t, :] over offsets[b] <= t < offsets[b + 1].

    values: [total, dim] float32 or bfloat16; offsets: [batch + 1] int32 or int64. out: [batch, dim] in the dtype
    of values, accumulated in at least float32. An empty row gives 0, as in embedding_bag (torch.mean would give
    NaN); NaN and infinities stay in their own row and column; rows of values past offsets[batch] are not read into
    any result. Any size may be 0.

    C entry point (all pointers to contiguous memory, aligned to one element):
    `void jagged_mean(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t batch, int64_t total,
    int64_t dim)`

    Source: operators.md J7.
    """

    name: ClassVar[str] = "jagged_mean"
    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("values", "input", "value", ("total", "dim"), "rows of all batch entries, one after the other"),
        Argument("offsets", "input", "index", ("batch + 1",), "where each batch entry begins, and where the last ends"),
        Argument("out", "output", "value", ("batch", "dim"), "the mean of each batch entry's rows; 0 if it has none"),
        Argument("batch", "scalar", "int64"),
        Argument("total", "scalar", "int64", meaning="rows of values; may exceed offsets[batch]"),
        Argument("dim", "scalar", "int64"),
    )

    def oracle(self, inputs: Inputs) -> Outputs:
        values = inputs.values.double()
        if on_device(values):
            return {"out": sum_spans(inputs, values) / Gathered(inputs).divisors()[:, None]}
        out = torch.zeros(inputs.batch, inputs.dim, dtype=torch.float64)
        for b, (start, end) in enumerate(spans(inputs)):
            if start < end:
                out[b] = values[start:end].mean(dim=0)
        return {"out": out}

    def baselines(self, device: str) -> Mapping[str, Baseline]:
        return mean_baselines(device)

    def cost(self, inputs: Inputs) -> Cost:
        """Every used value read once, every result written once, the offsets read once; one addition a value."""
        used = sum(end - start for start, end in spans(inputs)) * inputs.dim
        return Cost(bytes=bytes_moved(inputs, used + inputs.batch * inputs.dim), flops=used)

    def allowed(self, workload: Workload, expected: Outputs, inputs: Inputs) -> Mapping[str, Allowed]:
        """Within what a float32 sum in any order loses, and two roundoffs.

        They are for a multiplication by the rounded reciprocal of the length, of the sum or of each value.
        """
        dtype = getattr(torch, workload.dtype)
        wanted = expected["out"]
        lengths = inputs.offsets.diff()[:, None]
        magnitude = sum_spans(inputs, inputs.values.double().abs_()) / lengths.clamp(min=1)
        share = sum_error(lengths, workload.values) + 2 * FLOAT32_ROUNDOFF
        tolerance = share * magnitude + output_rounding(wanted, dtype) + SMALLEST
        return {"out": Within(wanted, tolerance)}
