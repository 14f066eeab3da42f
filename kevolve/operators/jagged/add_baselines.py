"""What a user has for jagged_dense_elementwise_add today.

What is wrong on some workload stays here: the judge checks a baseline before it times one.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from kevolve.operators.jagged.forms import (
    cell_of_value,
    compiled,
    dense_rows,
    dense_rows_repeated,
    has_fbgemm,
    nested,
    row_lengths,
    shortest_and_longest,
    unpadded,
)
from kevolve.operators.operator import Baseline, Inputs, Outputs


def add_baselines() -> Mapping[str, Baseline]:
    """By name. The fbgemm form is absent where fbgemm_gpu does not load."""
    table: dict[str, Baseline] = {
        "compiled_gather": compiled_gather,
        "compiled_repeat": compiled_repeat,
        "aten": aten,
        "rows": rows,
        "index_select": index_select,
        "nested": nested_sum,
    }
    if has_fbgemm():
        table |= {"fbgemm": fbgemm}
    return table


def aten(inputs: Inputs) -> Outputs:
    """Dense to jagged by the kernel behind nested tensors, then a plain addition."""
    return {"out": unpadded(inputs, inputs.dense).add_(inputs.values)}


def rows(inputs: Inputs) -> Outputs:
    """A Python loop: one addition a row."""
    lengths, most = row_lengths(inputs).tolist(), inputs.max_length
    used = sum(lengths)
    out = torch.empty_like(inputs.values, memory_format=torch.contiguous_format)
    out[used:] = 0
    parts = torch.split(inputs.values[:used], lengths), inputs.dense.unbind(), torch.split(out[:used], lengths)
    for row, more, target in zip(*parts, strict=True):
        torch.add(row[:most], more[: len(row)], out=target[:most])
        target[most:] = row[most:]
    return {"out": out}


def index_select(inputs: Inputs) -> Outputs:
    """The cells of the flattened tensor that are in use, added to values."""
    cells, taken = cell_of_value(inputs)
    flat = inputs.dense.flatten(0, 1)
    if len(cells) == inputs.total and bool(taken.all()):
        return {"out": flat.index_select(0, cells).add_(inputs.values)}
    out = torch.zeros_like(inputs.values, memory_format=torch.contiguous_format)
    out[: len(cells)] = inputs.values[: len(cells)]
    out[: len(cells)][taken] += flat.index_select(0, cells[taken])
    return {"out": out}


def nested_sum(inputs: Inputs) -> Outputs:
    least, most = shortest_and_longest(inputs)
    total = nested(inputs.values, inputs.offsets, least, most) + inputs.dense[:, :most]
    return {"out": total.values()}


def fbgemm(inputs: Inputs) -> Outputs:
    add = torch.ops.fbgemm.jagged_dense_elementwise_add_jagged_output
    return {"out": add(inputs.values, [inputs.offsets], inputs.dense)[0]}


def compiled_gather(inputs: Inputs) -> Outputs:
    """One compiled loop that searches each row's entry among the offsets."""
    return {"out": compiled(_gather)(inputs.values, inputs.offsets.long(), inputs.dense)}


def compiled_repeat(inputs: Inputs) -> Outputs:
    """A compiled gather whose entries come from repeat_interleave."""
    return {"out": compiled(_repeat)(inputs.values, inputs.offsets.long(), inputs.dense)}


def _gather(values: torch.Tensor, offsets: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    return _added(values, offsets, *dense_rows(dense, offsets, values.shape[0]))


def _repeat(values: torch.Tensor, offsets: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    return _added(values, offsets, *dense_rows_repeated(dense, offsets, values.shape[0]))


def _added(values: torch.Tensor, offsets: torch.Tensor, more: torch.Tensor, taken: torch.Tensor) -> torch.Tensor:
    in_use = (torch.arange(values.shape[0], device=values.device) < offsets[-1])[:, None]
    return torch.where(in_use, values + torch.where(taken, more, 0), 0)
