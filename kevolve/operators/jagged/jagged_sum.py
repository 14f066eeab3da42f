"""jagged_sum: the sum over each row of a jagged tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch

from kevolve.operators.checks import SMALLEST, Allowed, Exact, Within, output_rounding
from kevolve.operators.inputs import VALUES
from kevolve.operators.jagged.gathered import sum_spans
from kevolve.operators.jagged.jagged import JaggedOperator, bytes_moved, spans, sum_error
from kevolve.operators.jagged.sum_baselines import sum_baselines
from kevolve.operators.operator import Argument, Baseline, Cost, Inputs, Outputs, Workload


class JaggedSum(JaggedOperator):
    """out[b, :] is the sum of values[t, :] over offsets[b] <= t < offsets[b + 1].

    values: [total, dim] float32 or bfloat16; offsets: [batch + 1] int32 or int64. out: [batch, dim] in the dtype
    of values, accumulated in at least float32. An empty row gives 0; NaN and infinities stay in their own row
    and column; rows of values past offsets[batch] are not read into any result. Any size may be 0.

    C entry point (all pointers to contiguous memory, aligned to one element):
    `void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t batch, int64_t total, int64_t dim)`

    Source: operators.md J6.
    """

    name: ClassVar[str] = "jagged_sum"
    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("values", "input", "value", ("total", "dim"), "rows of all batch entries, one after the other"),
        Argument("offsets", "input", "index", ("batch + 1",), "where each batch entry begins, and where the last ends"),
        Argument("out", "output", "value", ("batch", "dim"), "the sum of each batch entry's rows"),
        Argument("batch", "scalar", "int64"),
        Argument("total", "scalar", "int64", meaning="rows of values; may exceed offsets[batch]"),
        Argument("dim", "scalar", "int64"),
    )

    def oracle(self, inputs: Inputs) -> Outputs:
        return {"out": sum_spans(inputs, inputs.values.double())}

    def baselines(self, device: str) -> Mapping[str, Baseline]:
        return sum_baselines(device)

    def cost(self, inputs: Inputs) -> Cost:
        """Every used value read once, every result written once, the offsets read once; one addition a value."""
        used = sum(end - start for start, end in spans(inputs)) * inputs.dim
        return Cost(bytes=bytes_moved(inputs, used + inputs.batch * inputs.dim), flops=used)

    def allowed(self, workload: Workload, expected: Outputs, inputs: Inputs) -> Mapping[str, Allowed]:
        """Exact for small integers, else within what a float32 sum of these values in any order loses."""
        dtype = getattr(torch, workload.dtype)
        wanted = expected["out"]
        if VALUES[workload.values].exact:
            return {"out": Exact(wanted)}
        magnitude = sum_spans(inputs, inputs.values.double().abs_())
        tolerance = (
            sum_error(inputs.offsets.diff(), workload.values)[:, None] * magnitude
            + output_rounding(wanted, dtype)
            + SMALLEST
        )
        return {"out": Within(wanted, tolerance)}
