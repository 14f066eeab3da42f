"""jagged_dense_elementwise_add: a jagged tensor plus the rows of a padded one, jagged again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch

from kevolve.operators.checks import SMALLEST, Allowed, Within
from kevolve.operators.jagged.add_baselines import add_baselines
from kevolve.operators.jagged.gathered import Gathered, on_device
from kevolve.operators.jagged.jagged import JaggedOperator, bytes_moved, spans, whole_spans
from kevolve.operators.operator import Argument, Baseline, Cost, Inputs, Outputs, Workload


class JaggedDenseElementwiseAdd(JaggedOperator):
    """out[offsets[b] + t, :] is values[offsets[b] + t, :] + dense[b, t, :], or the value alone where dense ends.

    values: [total, dim] and dense: [batch, max_length, dim], both float32 or both bfloat16; offsets: [batch + 1]
    int32 or int64. out: [total, dim] in the same dtype, each sum rounded once. Rows of an entry past its first
    max_length keep the value; rows past offsets[batch] are 0. Those rows of values, and rows of dense past an
    entry's length, are not read into any result. Any size may be 0.

    C entry point (all pointers to contiguous memory, aligned to one element):
    `void jagged_dense_elementwise_add(const VALUE *values, const INDEX *offsets, const VALUE *dense, VALUE *out,
    int64_t batch, int64_t total, int64_t dim, int64_t max_length)`

    Source: operators.md J3, form (a).
    """

    name: ClassVar[str] = "jagged_dense_elementwise_add"
    uses_whole_spans: ClassVar[bool] = True
    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("values", "input", "value", ("total", "dim"), "rows of all batch entries, one after the other"),
        Argument("offsets", "input", "index", ("batch + 1",), "where each batch entry begins, and where the last ends"),
        Argument("dense", "input", "value", ("batch", "max_length", "dim"), "what to add to each batch entry's rows"),
        Argument("out", "output", "value", ("total", "dim"), "the sums; 0 in rows past offsets[batch]"),
        Argument("batch", "scalar", "int64"),
        Argument("total", "scalar", "int64", meaning="rows of values; may exceed offsets[batch]"),
        Argument("dim", "scalar", "int64"),
        Argument("max_length", "scalar", "int64", meaning="rows that each batch entry has in dense"),
    )

    def oracle(self, inputs: Inputs) -> Outputs:
        values, dense = inputs.values, inputs.dense
        out = torch.zeros(inputs.total, inputs.dim, dtype=torch.float64, device=values.device)
        if on_device(values):
            whole, given = Gathered(inputs, whole=True), Gathered(inputs)
            out[whole.rows] = values[whole.rows].double()
            out[given.rows] += dense[given.entries, given.places]
            return {"out": out}
        for start, end in whole_spans(inputs):
            out[start:end] = values[start:end]
        for b, (start, end) in enumerate(spans(inputs)):
            out[start:end] += dense[b, : end - start]
        return {"out": out}

    def baselines(self, device: str) -> Mapping[str, Baseline]:
        return add_baselines()

    def cost(self, inputs: Inputs) -> Cost:
        """Every used number read once, every result written once, the offsets read once; one addition for a pair."""
        used = sum(end - start for start, end in whole_spans(inputs)) * inputs.dim
        added = sum(end - start for start, end in spans(inputs)) * inputs.dim
        return Cost(bytes=bytes_moved(inputs, used + added + inputs.total * inputs.dim), flops=added)

    def allowed(self, workload: Workload, expected: Outputs, inputs: Inputs) -> Mapping[str, Allowed]:
        """As near as the correctly rounded sum: one addition leaves no order to choose."""
        dtype = getattr(torch, workload.dtype)
        wanted = expected["out"]
        tolerance = (wanted - wanted.to(dtype).double()).abs_() + SMALLEST
        return {"out": Within(wanted, tolerance)}
