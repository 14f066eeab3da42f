"""The forms in which PyTorch can hold a jagged tensor, for baselines: padded, nested, or an index per value.

The longest row is computed from the offsets where a form needs it (some ten microseconds): nested tensors without
it pad every row to the total (pytorch issue 159380), and no user has it for nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache

import torch

from kevolve.operators.operator import Inputs


@cache
def has_fbgemm() -> bool:
    """Whether fbgemm_gpu is installed and fits this torch: a mismatched wheel fails as it loads."""
    try:
        importlib.import_module("fbgemm_gpu")
    except (ImportError, OSError):
        return False
    return hasattr(torch.ops.fbgemm, "jagged_to_padded_dense")


@cache
def compiled(form: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """torch.compile of `form` with symbolic sizes: one compilation per dtype serves every workload.

    Callers pass int64 offsets, so that the index dtype does not compile it again, and plain tensors, because graphs
    that take nested tensors are not kept in the compiler's cache.
    """
    return torch.compile(form, dynamic=True)


def row_lengths(inputs: Inputs) -> torch.Tensor:
    """[batch], in the dtype of the offsets."""
    lengths: torch.Tensor = inputs.offsets.diff()
    return lengths


def longest(inputs: Inputs) -> int:
    return int(row_lengths(inputs).max())


def shortest_and_longest(inputs: Inputs) -> tuple[int, int]:
    least, most = row_lengths(inputs).aminmax()
    return int(least), int(most)


def row_of_value(inputs: Inputs) -> torch.Tensor:
    """int64 [offsets[batch]]: which row of the batch each row of values belongs to."""
    lengths = row_lengths(inputs)
    return torch.repeat_interleave(torch.arange(inputs.batch), lengths, output_size=int(inputs.offsets[-1]))


def padded(inputs: Inputs, length: int, padding: float) -> torch.Tensor:
    """[batch, length, dim]."""
    dense: torch.Tensor = torch.ops.aten._jagged_to_padded_dense_forward(
        inputs.values, [inputs.offsets], [length], padding
    )
    return dense


def values_padded(values: torch.Tensor, offsets: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The gather form for compilers: [batch, length, dim], and bool [batch, length, 1] which rows are real."""
    position = offsets[:-1, None] + torch.arange(length)
    real = position < offsets[1:, None]
    return values[position.clamp(max=values.shape[0] - 1)], real[:, :, None]


def nested(values: torch.Tensor, offsets: torch.Tensor, least: int, most: int) -> torch.Tensor:
    """A jagged nested tensor over `values`, no copy."""
    return torch.nested.nested_tensor_from_jagged(values, offsets, min_seqlen=least, max_seqlen=most)
