"""What a user has for jagged_to_padded_dense today.

What is wrong on some workload stays here: the judge checks a baseline before it times one.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from kevolve.operators.jagged.forms import (
    cell_of_value,
    compiled,
    constant,
    has_fbgemm,
    nested,
    padded,
    row_lengths,
    shortest_and_longest,
    values_masked,
    values_padded,
)
from kevolve.operators.operator import Baseline, Inputs, Outputs


def to_padded_baselines() -> Mapping[str, Baseline]:
    """By name. The fbgemm form is absent where fbgemm_gpu does not load."""
    table: dict[str, Baseline] = {
        "aten": aten,
        "compiled_gather": compiled_gather,
        "compiled_mask": compiled_mask,
        "rows": rows,
        "index_copy": index_copy,
        "gather": gather,
        "pad_sequence": padded_sequence,
        "nested": to_padded_tensor,
    }
    if has_fbgemm():
        table |= {"fbgemm": fbgemm}
    return table


def aten(inputs: Inputs) -> Outputs:
    """The kernel behind nested tensors."""
    return {"out": padded(inputs, inputs.max_length, 0.0)}


def rows(inputs: Inputs) -> Outputs:
    """A Python loop: one copy a row."""
    out = inputs.values.new_zeros(inputs.batch, inputs.max_length, inputs.dim)
    lengths = row_lengths(inputs).tolist()
    for row, target in zip(torch.split(inputs.values[: sum(lengths)], lengths), out.unbind(), strict=True):
        length = min(len(row), inputs.max_length)
        target[:length] = row[:length]
    return {"out": out}


def index_copy(inputs: Inputs) -> Outputs:
    """Each row of values to its cell of zeros."""
    cells, taken = cell_of_value(inputs)
    out = inputs.values.new_zeros(inputs.batch * inputs.max_length, inputs.dim)
    source = inputs.values[: len(cells)]
    if not bool(taken.all()):
        cells, source = cells[taken], source[taken]
    return {"out": out.index_copy_(0, cells, source).view(inputs.batch, inputs.max_length, inputs.dim)}


def gather(inputs: Inputs) -> Outputs:
    """Each cell from its row of values, then zeros over what is too much."""
    gathered, taken = values_padded(inputs.values, inputs.offsets, inputs.max_length)
    return {"out": gathered.masked_fill_(~taken, 0)}


def padded_sequence(inputs: Inputs) -> Outputs:
    lengths = row_lengths(inputs).tolist()
    dense = pad_sequence(list(torch.split(inputs.values[: sum(lengths)], lengths)), batch_first=True)
    return {"out": functional.pad(dense, (0, 0, 0, inputs.max_length - dense.shape[1]))}


def to_padded_tensor(inputs: Inputs) -> Outputs:
    jagged = nested(inputs.values, inputs.offsets, *shortest_and_longest(inputs))
    return {"out": jagged.to_padded_tensor(0.0, output_size=(inputs.batch, inputs.max_length, inputs.dim))}


def fbgemm(inputs: Inputs) -> Outputs:
    return {"out": torch.ops.fbgemm.jagged_to_padded_dense(inputs.values, [inputs.offsets], [inputs.max_length], 0.0)}


def compiled_gather(inputs: Inputs) -> Outputs:
    """The masked gather as one compiled loop."""
    return {"out": compiled(_gather_padded)(inputs.values, inputs.offsets.long(), constant(inputs, inputs.max_length))}


def compiled_mask(inputs: Inputs) -> Outputs:
    """The same, but cells beyond a row's end load one row that is near, whatever it is."""
    return {"out": compiled(_mask_padded)(inputs.values, inputs.offsets.long(), constant(inputs, inputs.max_length))}


def _gather_padded(values: torch.Tensor, offsets: torch.Tensor, length: int) -> torch.Tensor:
    gathered, taken = values_padded(values, offsets, length)
    return torch.where(taken, gathered, 0)


def _mask_padded(values: torch.Tensor, offsets: torch.Tensor, length: int) -> torch.Tensor:
    gathered, taken = values_masked(values, offsets, length)
    return torch.where(taken, gathered, 0)
