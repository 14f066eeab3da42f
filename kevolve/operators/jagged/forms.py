"""The forms in which PyTorch can hold a jagged tensor, for baselines: padded, nested, or an index per value.

The longest row is computed from the offsets where a form needs it (some ten microseconds): nested tensors without
it pad every row to the total (pytorch issue 159380), and no user has it for nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

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
    """torch.compile of `form`. Callers pass int64 offsets, so that the index dtype does not compile it again, and plain
    tensors, because graphs that take nested tensors are not kept in the compiler's cache.

    On the CPU with symbolic sizes: one compilation per dtype serves every workload, no slower. On a GPU, where dividing
    by sizes that are not known made a padding ten times slower (H200, PyTorch 2.11), once for all sizes but the rows,
    and for each `Constant`.
    """
    symbolic = torch.compile(form, dynamic=True)
    fixed: dict[Any, Callable[..., torch.Tensor]] = {}

    def call(*arguments: Any) -> torch.Tensor:
        if not has_dear_divisions(arguments[0].device):
            return symbolic(*arguments)
        tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
        for rows in filter(_are_rows, tensors):
            torch._dynamo.maybe_mark_dynamic(rows, 0)
        shapes = tuple((t.dtype, tuple(t.shape[1:] if _are_rows(t) else t.shape)) for t in tensors)
        sizes = shapes, tuple(argument for argument in arguments if isinstance(argument, Constant))
        if sizes not in fixed:
            fixed[sizes] = torch.compile(_twin(form, len(fixed)))
        return fixed[sizes](*(int(one) if isinstance(one, Constant) else one for one in arguments))

    return call


class Constant(int):
    """A number that is compiled for, by itself: there should be few."""


def constant(inputs: Inputs, number: int) -> int:
    """A workload's own number: a `Constant` where one pays."""
    return Constant(number) if has_dear_divisions(inputs.values.device) else number


def roomy(inputs: Inputs, length: int, at_most: int | None = None) -> int:
    """How long rows are to a compiled form: where constants pay, the next power of two, since the longest is drawn."""
    if has_dear_divisions(inputs.values.device):
        length = Constant(1 << (length - 1).bit_length() if length else 1)
    if at_most is not None and at_most < length:
        return constant(inputs, at_most)
    return length


def has_dear_divisions(device: torch.device) -> bool:
    """Do kernels for sizes that are not known pay for it?"""
    return device.type != "cpu"


def _are_rows(tensor: torch.Tensor) -> bool:
    """Has it a row for every jagged one, as many as are drawn?"""
    return tensor.is_floating_point() and tensor.ndim == 2


def _twin(form: Callable[..., torch.Tensor], number: int) -> Callable[..., torch.Tensor]:
    """The same function with code of its own: the compiler counts, and tries, what it has compiled by code."""
    assert isinstance(form, FunctionType)
    code = form.__code__.replace(co_name=f"{form.__name__}_{number}")
    return FunctionType(code, form.__globals__, code.co_name, form.__defaults__, form.__closure__)


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
    return torch.repeat_interleave(
        torch.arange(inputs.batch, device=lengths.device), lengths, output_size=int(inputs.offsets[-1])
    )


def cell_of_value(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """For each row of values in use its row in a tensor [batch * max_length, ...], and whether it has one (bool)."""
    entry = row_of_value(inputs)
    position = torch.arange(len(entry), device=entry.device) - inputs.offsets[entry]
    return entry * inputs.max_length + position, position < inputs.max_length


def padded(inputs: Inputs, length: int, padding: float) -> torch.Tensor:
    """[batch, length, dim]."""
    dense: torch.Tensor = torch.ops.aten._jagged_to_padded_dense_forward(
        inputs.values, [inputs.offsets], [length], padding
    )
    return dense


def unpadded(inputs: Inputs, dense: torch.Tensor) -> torch.Tensor:
    """[total, dim] from [batch, length, dim]."""
    values: torch.Tensor = torch.ops.aten._padded_dense_to_jagged_forward(dense, [inputs.offsets], inputs.total)
    return values


def values_padded(values: torch.Tensor, offsets: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The gather form for compilers: [batch, length, dim], and bool [batch, length, 1] which rows are real."""
    position = offsets[:-1, None] + torch.arange(length, device=offsets.device)
    real = position < offsets[1:, None]
    return values[position.clamp(max=values.shape[0] - 1)], real[:, :, None]


def values_masked(values: torch.Tensor, offsets: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, but cells beyond a row's end load one row that is near, whatever it is."""
    position = offsets[:-1, None] + torch.arange(length, device=offsets.device)
    real = position < offsets[1:, None]
    return values[torch.where(real, position, 0)], real[:, :, None]


def rows_in_use(offsets: torch.Tensor, total: int, length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """For compilers: row numbers, their batch entries (int64 [total]), and which take part (bool [total, 1])."""
    position = torch.arange(total, device=offsets.device)
    # All of the offsets: compiled for CUDA (PyTorch 2.11), a part of them is searched from where the whole begins.
    entry = (torch.bucketize(position, offsets, right=True) - 1).clamp(max=offsets.shape[0] - 2)
    within = position - offsets[entry]
    return position, entry, ((within < length) & (position < offsets[-1]))[:, None]


def dense_rows(dense: torch.Tensor, offsets: torch.Tensor, total: int) -> tuple[torch.Tensor, torch.Tensor]:
    """For compilers: [total, dim] gathered from [batch, length, dim], and bool [total, 1] which rows dense has."""
    position, entry, taken = rows_in_use(offsets, total, dense.shape[1])
    within = (position - offsets[entry]).clamp(max=dense.shape[1] - 1)
    return dense[entry, within], taken


def dense_rows_repeated(dense: torch.Tensor, offsets: torch.Tensor, total: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same with each entry's number repeated instead of searched for: rows past the last offset count as its."""
    lengths = offsets.diff()
    lengths = torch.cat([lengths[:-1], lengths[-1:] + total - offsets[-1]])
    entry = torch.repeat_interleave(lengths, output_size=total)
    position = torch.arange(total, device=offsets.device)
    within = position - offsets[entry]
    taken = (within < dense.shape[1]) & (position < offsets[-1])
    return dense[entry, within.clamp(max=dense.shape[1] - 1)], taken[:, None]


def nested(values: torch.Tensor, offsets: torch.Tensor, least: int, most: int) -> torch.Tensor:
    """A jagged nested tensor over `values`, no copy."""
    return torch.nested.nested_tensor_from_jagged(values, offsets, min_seqlen=least, max_seqlen=most)
