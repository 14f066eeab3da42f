"""Coarse arithmetic: what would an oracle answer on a machine whose numbers have no more digits than a dtype?

Every floating result of every tensor operation is rounded, and sums, means, products of matrices and softmaxes are
accumulated term by term in the dtype, as by a kernel with too short an accumulator. In float32 that is what an honest
kernel does; in half precision it is what a check must not take. An operator needs nothing for it but its oracle.
Operations that are not listed here keep their own accumulation, and only their inputs and results are coarse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

LONGEST = 512  # additions one after the other; longer sums are kept in several running sums, as by vector units


_Mode: Any = TorchDispatchMode  # whose own methods have no types


class Coarse(_Mode):
    """Inside, tensors have no more digits than `dtype`, whatever they are stored in."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nobody compiles this, and keeping the compiler off takes seconds to import."""
        return False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        accumulate = ACCUMULATED.get(function)
        if accumulate is not None and all(part.is_floating_point() for part in args if isinstance(part, torch.Tensor)):
            return accumulate(self, *args, **(kwargs or {}))
        answer = function(*args, **(kwargs or {}))
        if not function.is_view:
            tree_map_only(torch.Tensor, self.cut, answer)
        return answer

    def cut(self, tensor: torch.Tensor) -> torch.Tensor:
        """Round in place: the tensor is new, or one that was just written to."""
        if tensor.is_floating_point() and tensor.dtype != self.dtype:
            tensor.copy_(tensor.to(self.dtype))
        return tensor

    def total(self, terms: torch.Tensor) -> torch.Tensor:
        """The sum over the first dimension, in running sums of at most `LONGEST` terms, which are summed likewise."""
        running = terms.to(self.dtype)
        while len(running) > 1:
            lanes = -(-len(running) // LONGEST)
            missing = -len(running) % lanes
            filled = torch.cat([running, running.new_zeros(missing, *running.shape[1:])])
            steps = filled.reshape(len(filled) // lanes, lanes, *running.shape[1:])
            running = steps[0].clone()
            for step in steps[1:]:
                running += step
        return (running[0] if len(running) else running.new_zeros(running.shape[1:])).to(terms.dtype)


def _sum(
    mode: Coarse, terms: torch.Tensor, dim: Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None
) -> torch.Tensor:
    terms = terms if dtype is None else terms.to(dtype)
    if terms.dim() == 0:
        return terms.clone()
    dims = sorted(axis % terms.dim() for axis in (dim or range(terms.dim())))
    total = mode.total(terms.movedim(dims, list(range(len(dims)))).flatten(0, len(dims) - 1))
    shape = [1 if axis in dims else length for axis, length in enumerate(terms.shape)]
    return total.reshape(shape) if keepdim else total


def _mean(
    mode: Coarse, terms: torch.Tensor, dim: Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None
) -> torch.Tensor:
    total = _sum(mode, terms, dim, keepdim, dtype=dtype)
    return mode.cut(total / (terms.numel() // max(1, total.numel())))


def _matmul(mode: Coarse, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """[..., m, k] times [..., k, n]. Where k is long, several products are one term."""
    count = left.shape[-1]
    total = left.new_zeros(*left.shape[:-1], right.shape[-1], dtype=mode.dtype)
    step = -(-count // LONGEST) or 1
    for start in range(0, count, step):
        total += (left[..., start : start + step] @ right[..., start : start + step, :]).to(mode.dtype)
    return total.to(left.dtype)


def _addmm(
    mode: Coarse, bias: torch.Tensor, left: torch.Tensor, right: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    return mode.cut(beta * bias + alpha * _matmul(mode, left, right))


def _exponentials(mode: Coarse, values: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Values less their maximum, exponentials of that, and their sum."""
    shifted = mode.cut(values - values.amax(dim, keepdim=True))
    powers = mode.cut(shifted.exp())
    return shifted, powers, _sum(mode, powers, [dim], True)


def _softmax(mode: Coarse, values: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    if not values.numel():
        return values.clone()
    _, powers, total = _exponentials(mode, values, dim)
    return mode.cut(powers / total)


def _log_softmax(mode: Coarse, values: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    if not values.numel():
        return values.clone()
    shifted, _, total = _exponentials(mode, values, dim)
    return mode.cut(shifted - mode.cut(total.log()))


_aten = torch.ops.aten
ACCUMULATED: Mapping[Any, Callable[..., torch.Tensor]] = {
    _aten.sum.default: _sum,
    _aten.sum.dim_IntList: _sum,
    _aten.mean.default: _mean,
    _aten.mean.dim: _mean,
    _aten.mm.default: _matmul,
    _aten.bmm.default: _matmul,
    _aten.addmm.default: _addmm,
    _aten._softmax.default: _softmax,
    _aten._log_softmax.default: _log_softmax,
}
