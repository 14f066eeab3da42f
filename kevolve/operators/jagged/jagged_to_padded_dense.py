"""jagged_to_padded_dense: each row of a jagged tensor at the beginning of a row of a padded one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch

from kevolve.operators.checks import Allowed, Bits
from kevolve.operators.jagged.gathered import Gathered, on_device
from kevolve.operators.jagged.jagged import JaggedOperator, bytes_moved, spans
from kevolve.operators.jagged.to_padded_baselines import to_padded_baselines
from kevolve.operators.operator import Argument, Baseline, Cost, Inputs, Outputs, Workload


class JaggedToPaddedDense(JaggedOperator):
    """out[b, t, :] is values[offsets[b] + t, :] while that is before offsets[b + 1], and 0 from there on.

    values: [total, dim] float32 or bfloat16; offsets: [batch + 1] int32 or int64. out: [batch, max_length, dim] in
    the dtype of values: a copy bit for bit, what NaNs carry included, and +0 elsewhere. Rows of an entry past its
    first max_length are dropped, rows of values past offsets[batch] are not read into any result. Any size may be 0.

    C entry point (all pointers to contiguous memory, aligned to one element):
    `void jagged_to_padded_dense(const VALUE *values, const INDEX *offsets, VALUE *out, int64_t batch, int64_t total,
    int64_t dim, int64_t max_length)`

    Source: operators.md J1.
    """

    name: ClassVar[str] = "jagged_to_padded_dense"
    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("values", "input", "value", ("total", "dim"), "rows of all batch entries, one after the other"),
        Argument("offsets", "input", "index", ("batch + 1",), "where each batch entry begins, and where the last ends"),
        Argument("out", "output", "value", ("batch", "max_length", "dim"), "each batch entry's rows, then zeros"),
        Argument("batch", "scalar", "int64"),
        Argument("total", "scalar", "int64", meaning="rows of values; may exceed offsets[batch]"),
        Argument("dim", "scalar", "int64"),
        Argument("max_length", "scalar", "int64", meaning="rows that each batch entry has in out"),
    )

    def oracle(self, inputs: Inputs) -> Outputs:
        """In the dtype of values: a copy has no use for a wider one."""
        values = inputs.values
        out = torch.zeros(inputs.batch, inputs.max_length, inputs.dim, dtype=values.dtype, device=values.device)
        if on_device(values):
            given = Gathered(inputs)
            out[given.entries, given.places] = values[given.rows]
            return {"out": out}
        for b, (start, end) in enumerate(spans(inputs)):
            out[b, : end - start] = values[start:end]
        return {"out": out}

    def baselines(self, device: str) -> Mapping[str, Baseline]:
        return to_padded_baselines()

    def cost(self, inputs: Inputs) -> Cost:
        """Every used value read once, every result written once, the offsets read once; no arithmetic."""
        used = sum(end - start for start, end in spans(inputs)) * inputs.dim
        return Cost(bytes=bytes_moved(inputs, used + inputs.batch * inputs.max_length * inputs.dim), flops=0)

    def allowed(self, workload: Workload, expected: Outputs, inputs: Inputs) -> Mapping[str, Allowed]:
        """Bit for bit."""
        return {"out": Bits(expected["out"])}
