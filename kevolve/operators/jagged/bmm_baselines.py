"""What a user has for jagged_dense_bmm today.

What is wrong on some workload stays here: the judge checks a baseline before it times one.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn import functional

from kevolve.operators.jagged.forms import (
    compiled,
    dense_rows,
    dense_rows_repeated,
    has_fbgemm,
    longest,
    nested,
    padded,
    roomy,
    row_lengths,
    shortest_and_longest,
    unpadded,
    values_padded,
)
from kevolve.operators.operator import Baseline, Inputs, Outputs


def bmm_baselines() -> Mapping[str, Baseline]:
    """By name. The fbgemm forms are absent where fbgemm_gpu does not load."""
    table: dict[str, Baseline] = {
        "rows": rows,
        "padded": padded_bmm,
        "grouped_mm": grouped_mm,
        "compiled_gather": compiled_gather,
        "compiled_repeat": compiled_repeat,
        "nested": nested_matmul,
    }
    if has_fbgemm():
        table |= {"fbgemm": fbgemm, "fbgemm_padded": fbgemm_padded}
    return table


def rows(inputs: Inputs) -> Outputs:
    """A Python loop: one matrix product a batch entry, each over all cores."""
    out = inputs.values.new_empty(inputs.total, inputs.out_dim)
    lengths, most = row_lengths(inputs).tolist(), inputs.max_length
    used = sum(lengths)
    if used < inputs.total or max(lengths, default=0) > most:
        out.zero_()
    parts = torch.split(inputs.values[:used], lengths), inputs.matrices.unbind(), torch.split(out[:used], lengths)
    for row, matrix, target in zip(*parts, strict=True):
        if len(row):
            torch.mm(row[:most], matrix, out=target[:most])
    return {"out": out}


def padded_bmm(inputs: Inputs) -> Outputs:
    dense = padded(inputs, min(longest(inputs), inputs.max_length), 0.0)
    return {"out": unpadded(inputs, torch.bmm(dense, inputs.matrices))}


def grouped_mm(inputs: Inputs) -> Outputs:
    """The grouped product of mixtures of experts. Knows nothing of max_length or of rows past the last offset."""
    return {"out": functional.grouped_mm(inputs.values, inputs.matrices, offs=inputs.offsets[1:].int())}


def nested_matmul(inputs: Inputs) -> Outputs:
    jagged = nested(inputs.values, inputs.offsets, *shortest_and_longest(inputs))
    return {"out": torch.matmul(jagged, inputs.matrices).values()}


def fbgemm(inputs: Inputs) -> Outputs:
    multiply = torch.ops.fbgemm.jagged_dense_bmm
    return {"out": multiply(inputs.values, inputs.offsets, inputs.matrices, inputs.max_length)[0]}


def fbgemm_padded(inputs: Inputs) -> Outputs:
    length, offsets = min(longest(inputs), inputs.max_length), [inputs.offsets]
    dense = torch.ops.fbgemm.jagged_to_padded_dense(inputs.values, offsets, [length], 0.0)
    product = torch.bmm(dense, inputs.matrices)
    return {"out": torch.ops.fbgemm.dense_to_jagged(product, offsets, inputs.total)[0]}


def compiled_gather(inputs: Inputs) -> Outputs:
    """Compiled gathers around a batched matrix product of padded rows."""
    length = roomy(inputs, longest(inputs), at_most=inputs.max_length)
    return {"out": compiled(_gather_bmm)(inputs.values, inputs.offsets.long(), inputs.matrices, length)}


def compiled_repeat(inputs: Inputs) -> Outputs:
    """The same with entries from repeat_interleave on the way back."""
    length = roomy(inputs, longest(inputs), at_most=inputs.max_length)
    return {"out": compiled(_repeat_bmm)(inputs.values, inputs.offsets.long(), inputs.matrices, length)}


def _gather_bmm(values: torch.Tensor, offsets: torch.Tensor, matrices: torch.Tensor, length: int) -> torch.Tensor:
    gathered, taken = values_padded(values, offsets, length)
    product = torch.bmm(torch.where(taken, gathered, 0), matrices)
    rows_of_product, in_use = dense_rows(product, offsets, values.shape[0])
    return torch.where(in_use, rows_of_product, 0)


def _repeat_bmm(values: torch.Tensor, offsets: torch.Tensor, matrices: torch.Tensor, length: int) -> torch.Tensor:
    gathered, taken = values_padded(values, offsets, length)
    product = torch.bmm(torch.where(taken, gathered, 0), matrices)
    rows_of_product, in_use = dense_rows_repeated(product, offsets, values.shape[0])
    return torch.where(in_use, rows_of_product, 0)
