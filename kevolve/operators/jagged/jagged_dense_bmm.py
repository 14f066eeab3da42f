"""jagged_dense_bmm: each row of a jagged tensor times its own matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch

from kevolve.operators.checks import FLOAT32_ROUNDOFF, SMALLEST, Allowed, Exact, Within, output_rounding
from kevolve.operators.inputs import VALUES
from kevolve.operators.jagged.bmm_baselines import bmm_baselines
from kevolve.operators.jagged.jagged import JaggedOperator, bytes_moved, spans, sum_error
from kevolve.operators.operator import Argument, Baseline, Cost, Inputs, Outputs, Workload


class JaggedDenseBmm(JaggedOperator):
    """out[t, :] is values[t, :] times matrices[b, :, :] for every row t of batch entry b.

    values: [total, dim] and matrices: [batch, dim, out_dim], both float32 or both bfloat16; offsets: [batch + 1]
    int32 or int64. Of each entry only the first max_length rows take part. out: [total, out_dim] in the same
    dtype, accumulated in at least float32; it is 0 in rows past an entry's first max_length and past offsets[batch].
    Those rows of values, and matrices of entries without rows, are not read into any result; NaN and infinities
    stay in their own row, or for a matrix in its own entry and column. Any size may be 0.

    C entry point (all pointers to contiguous memory, aligned to one element):
    `void jagged_dense_bmm(const VALUE *values, const INDEX *offsets, const VALUE *matrices, VALUE *out, int64_t batch,
    int64_t total, int64_t dim, int64_t out_dim, int64_t max_length)`

    Source: operators.md J11, without bias.
    """

    name: ClassVar[str] = "jagged_dense_bmm"
    sizes: ClassVar[tuple[str, ...]] = ("batch", "max_length", "dim", "out_dim")
    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("values", "input", "value", ("total", "dim"), "rows of all batch entries, one after the other"),
        Argument("offsets", "input", "index", ("batch + 1",), "where each batch entry begins, and where the last ends"),
        Argument("matrices", "input", "value", ("batch", "dim", "out_dim"), "what each batch entry's rows multiply"),
        Argument("out", "output", "value", ("total", "out_dim"), "the products; 0 in rows that take no part"),
        Argument("batch", "scalar", "int64"),
        Argument("total", "scalar", "int64", meaning="rows of values; may exceed offsets[batch]"),
        Argument("dim", "scalar", "int64"),
        Argument("out_dim", "scalar", "int64"),
        Argument("max_length", "scalar", "int64", meaning="rows of each batch entry that take part, at most"),
    )

    def oracle(self, inputs: Inputs) -> Outputs:
        return {"out": _products(inputs, inputs.values.double(), inputs.matrices.double())}

    def baselines(self, device: str) -> Mapping[str, Baseline]:
        return bmm_baselines()

    def cost(self, inputs: Inputs) -> Cost:
        """Every used number read once, every result written once, the offsets read once.

        A multiplication and an addition for each used value and column of its matrix.
        """
        lengths = [end - start for start, end in spans(inputs)]
        used = sum(lengths) * inputs.dim
        matrices = sum(length > 0 for length in lengths) * inputs.dim * inputs.out_dim
        written = inputs.total * inputs.out_dim
        return Cost(bytes=bytes_moved(inputs, used + matrices + written), flops=2 * used * inputs.out_dim)

    def allowed(self, workload: Workload, expected: Outputs, inputs: Inputs) -> Mapping[str, Allowed]:
        """Exact for small integers, else within what float32 products and their sum in any order lose."""
        dtype = getattr(torch, workload.dtype)
        wanted = expected["out"]
        if VALUES[workload.values].exact:
            return {"out": Exact(wanted)}
        magnitude = _products(inputs, inputs.values.double().abs_(), inputs.matrices.double().abs_())
        # Twice what a sum may lose: roundings deviate by 0.6 sqrt(n) roundoffs where an early product is as large as
        # the sum, and the worst of a hundred million results, as a GPU's workloads have them, by nearly six times that.
        share = 2 * sum_error(torch.tensor(inputs.dim), workload.values) + FLOAT32_ROUNDOFF
        tolerance = share * magnitude + output_rounding(wanted, dtype) + SMALLEST
        return {"out": Within(wanted, tolerance)}


def _products(inputs: Inputs, values: torch.Tensor, matrices: torch.Tensor) -> torch.Tensor:
    """float64 [total, out_dim]: each span of `values` times its matrix."""
    out = torch.zeros(inputs.total, inputs.out_dim, dtype=torch.float64, device=values.device)
    for b, (start, end) in enumerate(spans(inputs)):
        out[start:end] = values[start:end] @ matrices[b]
    return out
