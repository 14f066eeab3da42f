"""dense_to_jagged: the rows of a padded tensor that are in use, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch

from kevolve.operators.checks import Allowed, Bits
from kevolve.operators.jagged.gathered import Gathered, on_device
from kevolve.operators.jagged.jagged import JaggedOperator, bytes_moved, spans
from kevolve.operators.jagged.to_jagged_baselines import to_jagged_baselines
from kevolve.operators.operator import Argument, Baseline, Cost, Inputs, Outputs, Workload


class DenseToJagged(JaggedOperator):
    """out[offsets[b] + t, :] is dense[b, t, :] for every row t of batch entry b that dense has, else 0.

    dense: [batch, max_length, dim] float32 or bfloat16; offsets: [batch + 1] int32 or int64. out: [total, dim] in
    the dtype of dense: a copy bit for bit, what NaNs carry included, and +0 in rows of an entry past its first
    max_length and in rows past offsets[batch]. Rows of dense past an entry's length are not read into any result.
    Any size may be 0.

    C entry point (all pointers to contiguous memory, aligned to one element):
    `void dense_to_jagged(const VALUE *dense, const INDEX *offsets, VALUE *out, int64_t batch, int64_t total,
    int64_t dim, int64_t max_length)`

    Source: operators.md J2.
    """

    name: ClassVar[str] = "dense_to_jagged"
    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("dense", "input", "value", ("batch", "max_length", "dim"), "each batch entry's rows, then padding"),
        Argument("offsets", "input", "index", ("batch + 1",), "where each batch entry begins, and where the last ends"),
        Argument("out", "output", "value", ("total", "dim"), "rows of all batch entries, one after the other"),
        Argument("batch", "scalar", "int64"),
        Argument("total", "scalar", "int64", meaning="rows of out; may exceed offsets[batch]"),
        Argument("dim", "scalar", "int64"),
        Argument("max_length", "scalar", "int64", meaning="rows that each batch entry has in dense"),
    )

    def oracle(self, inputs: Inputs) -> Outputs:
        """In the dtype of dense: a copy has no use for a wider one."""
        dense = inputs.dense
        out = torch.zeros(inputs.total, inputs.dim, dtype=dense.dtype, device=dense.device)
        if on_device(dense):
            given = Gathered(inputs)
            out[given.rows] = dense[given.entries, given.places]
            return {"out": out}
        for b, (start, end) in enumerate(spans(inputs)):
            out[start:end] = dense[b, : end - start]
        return {"out": out}

    def baselines(self, device: str) -> Mapping[str, Baseline]:
        return to_jagged_baselines()

    def cost(self, inputs: Inputs) -> Cost:
        """Every used row of dense read once, every result written once, the offsets read once; no arithmetic."""
        used = sum(end - start for start, end in spans(inputs)) * inputs.dim
        return Cost(bytes=bytes_moved(inputs, used + inputs.total * inputs.dim), flops=0)

    def allowed(self, workload: Workload, expected: Outputs, inputs: Inputs) -> Mapping[str, Allowed]:
        """Bit for bit."""
        return {"out": Bits(expected["out"])}
