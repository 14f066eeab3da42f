"""What a user has for dense_to_jagged today.

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
    row_lengths,
    unpadded,
)
from kevolve.operators.operator import Baseline, Inputs, Outputs


def to_jagged_baselines() -> Mapping[str, Baseline]:
    """By name. The fbgemm form is absent where fbgemm_gpu does not load."""
    table: dict[str, Baseline] = {
        "aten": aten,
        "compiled_gather": compiled_gather,
        "compiled_repeat": compiled_repeat,
        "index_select": index_select,
        "rows": rows,
        "mask": mask,
        "narrow": narrow,
    }
    if has_fbgemm():
        table |= {"fbgemm": fbgemm}
    return table


def aten(inputs: Inputs) -> Outputs:
    """The kernel behind nested tensors."""
    return {"out": unpadded(inputs, inputs.dense)}


def index_select(inputs: Inputs) -> Outputs:
    """The cells of the flattened tensor that are in use."""
    cells, taken = cell_of_value(inputs)
    flat = inputs.dense.flatten(0, 1)
    if len(cells) == inputs.total and bool(taken.all()):
        return {"out": flat.index_select(0, cells)}
    out = flat.new_zeros(inputs.total, inputs.dim)
    out[: len(cells)][taken] = flat.index_select(0, cells[taken])
    return {"out": out}


def rows(inputs: Inputs) -> Outputs:
    """A Python loop: one copy a row."""
    out = inputs.dense.new_zeros(inputs.total, inputs.dim)
    lengths = row_lengths(inputs).tolist()
    for row, target in zip(inputs.dense.unbind(), torch.split(out[: sum(lengths)], lengths), strict=True):
        target[: inputs.max_length] = row[: len(target)]
    return {"out": out}


def mask(inputs: Inputs) -> Outputs:
    """Selection by booleans. Gives fewer rows where rows are missing."""
    position = torch.arange(inputs.max_length, device=inputs.dense.device)
    return {"out": inputs.dense[position < row_lengths(inputs)[:, None]]}


def narrow(inputs: Inputs) -> Outputs:
    """A nested tensor with holes, made contiguous."""
    lengths = row_lengths(inputs).long()
    jagged = torch.nested.narrow(inputs.dense, 1, 0, lengths, layout=torch.jagged)
    return {"out": jagged.contiguous().values()}


def fbgemm(inputs: Inputs) -> Outputs:
    return {"out": torch.ops.fbgemm.dense_to_jagged(inputs.dense, [inputs.offsets], inputs.total)[0]}


def compiled_gather(inputs: Inputs) -> Outputs:
    """One compiled loop that searches each row's entry among the offsets."""
    return {"out": compiled(_gather)(inputs.dense, inputs.offsets.long(), inputs.total)}


def compiled_repeat(inputs: Inputs) -> Outputs:
    """A compiled gather whose entries come from repeat_interleave."""
    return {"out": compiled(_repeat)(inputs.dense, inputs.offsets.long(), inputs.total)}


def _gather(dense: torch.Tensor, offsets: torch.Tensor, total: int) -> torch.Tensor:
    gathered, taken = dense_rows(dense, offsets, total)
    return torch.where(taken, gathered, 0)


def _repeat(dense: torch.Tensor, offsets: torch.Tensor, total: int) -> torch.Tensor:
    gathered, taken = dense_rows_repeated(dense, offsets, total)
    return torch.where(taken, gathered, 0)
