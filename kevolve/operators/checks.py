"""Checks: does an answer agree with the oracle as far as honest rounding allows?

Operators say what is allowed by these pieces. The tolerance is per element and comes from what the
arithmetic can lose: a float32 accumulation in any order, then one rounding to the output's dtype. It never
comes from what some kernel happened to return (evaluators.md 3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from kevolve.operators.operator import Mismatch, Outputs

FLOAT32_ROUNDOFF = 2.0**-24
# Below this a float32 may be flushed to zero, and an exponential clamped: both are honest.
SMALLEST = 2.0**-125


def check_form(outputs: Outputs, shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype) -> Mismatch | None:
    """Exactly the outputs of `shapes`, with exactly these shapes and this dtype."""
    if set(outputs) != set(shapes):
        return Mismatch("the outputs have other names", f"expected {sorted(shapes)}, got {sorted(outputs)}")
    for name, shape in shapes.items():
        got = outputs[name]
        if tuple(got.shape) != shape:
            return Mismatch(f"{name} has the wrong shape", f"expected {list(shape)}, got {list(got.shape)}")
        if got.dtype != dtype:
            return Mismatch(f"{name} has the wrong dtype", f"expected {dtype}, got {got.dtype}")
    return None


def output_rounding(expected: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """One to two units in the last place of `expected` in `dtype`: correct rounding needs half of one."""
    kind = torch.finfo(dtype)
    return expected.abs().mul_(kind.eps).add_(kind.smallest_normal * kind.eps)


class Allowed(Protocol):
    """Which values of one output are right."""

    def differs(self, name: str, got: torch.Tensor) -> Mismatch | None:
        """None if `got` is right, else why it is not."""
        ...

    def quickly(self, dtype: torch.dtype) -> Callable[[torch.Tensor], bool]:
        """A fast test for many answers: True only for what `differs` has nothing against."""
        ...


@dataclass(frozen=True)
class Within:
    """|got - expected| <= tolerance wherever `expected` is finite; elsewhere the same NaN or infinity.

    Both are float64, and `tolerance` broadcasts to `expected`. Its value where `expected` is not finite is ignored.
    """

    expected: torch.Tensor
    tolerance: torch.Tensor

    def differs(self, name: str, got: torch.Tensor) -> Mismatch | None:
        actual = got.detach().to(self.expected.device, torch.float64)
        # False for NaN, and for infinity against an infinite tolerance: neither is close to a number.
        right = (actual - self.expected).abs_().sub_(self.tolerance) <= 0
        if bool(right.all()):
            return None
        # What the output's dtype cannot hold is infinite in it.
        right |= (actual == self.expected.to(got.dtype)) | (actual.isnan() & self.expected.isnan())
        return None if bool(right.all()) else _describe(name, actual, self.expected, right, self.tolerance)

    def quickly(self, dtype: torch.dtype) -> Callable[[torch.Tensor], bool]:
        """By bounds in the output's own dtype, rounded inwards. Where `expected` is not finite nothing lies within."""
        low = _towards(self.expected - self.tolerance, dtype, torch.inf)
        high = _towards(self.expected + self.tolerance, dtype, -torch.inf)
        return lambda got: bool(((got >= low) & (got <= high)).all())


@dataclass(frozen=True)
class Exact:
    """`expected` (float64), faithfully rounded: itself where the output's dtype has it, else either neighbour.

    Either, because a half-precision output may be cut off as well as rounded. The sign of 0 does not matter.
    """

    expected: torch.Tensor

    def differs(self, name: str, got: torch.Tensor) -> Mismatch | None:
        actual = got.detach().to(self.expected.device)
        below, above = self._neighbours(actual.dtype)
        right = (actual >= below) & (actual <= above)
        if bool(right.all()):
            return None
        told = "is not exact where every order of summation is"
        return _describe(name, actual.double(), self.expected, right, None, told)

    def quickly(self, dtype: torch.dtype) -> Callable[[torch.Tensor], bool]:
        below, above = self._neighbours(dtype)
        return lambda got: bool(((got >= below) & (got <= above)).all())

    def _neighbours(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        return _towards(self.expected, dtype, -torch.inf), _towards(self.expected, dtype, torch.inf)


@dataclass(frozen=True)
class Bits:
    """`expected`, in the output's dtype, bit for bit: the sign of 0 and what a NaN carries included."""

    expected: torch.Tensor

    def differs(self, name: str, got: torch.Tensor) -> Mismatch | None:
        actual = got.detach().to(self.expected.device).contiguous()
        wanted = self.expected.contiguous()
        right = _as_bits(actual) == _as_bits(wanted)
        if bool(right.all()):
            return None
        told = "is not the copied value, bit for bit"
        return _describe(name, actual.double(), wanted.double(), right, None, told)

    def quickly(self, dtype: torch.dtype) -> Callable[[torch.Tensor], bool]:
        wanted = _as_bits(self.expected.contiguous())
        return lambda got: torch.equal(_as_bits(got), wanted)


def _towards(bound: torch.Tensor, dtype: torch.dtype, direction: float) -> torch.Tensor:
    """`bound` (float64) in `dtype`, rounded towards `direction`, which is either infinity."""
    rounded = bound.to(dtype)
    is_short = rounded.double() < bound if direction > 0 else rounded.double() > bound
    return torch.where(is_short, _next(rounded, direction), rounded)


def _next(values: torch.Tensor, direction: float) -> torch.Tensor:
    """The neighbours of `values` towards an infinite `direction`. PyTorch has no nextafter for float16."""
    if values.dtype is not torch.float16:
        return torch.nextafter(values, values.new_tensor(direction))
    bits, up = values.view(torch.int16), 1 if direction > 0 else -1
    away_from_zero = torch.where(bits < 0, -up, up).to(torch.int16)
    smallest = torch.full_like(bits, 1 if direction > 0 else -0x7FFF)
    return torch.where(values == 0, smallest, bits + away_from_zero).view(torch.float16)


def _as_bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view({2: torch.int16, 4: torch.int32}[tensor.element_size()])


def _describe(
    name: str,
    actual: torch.Tensor,
    expected: torch.Tensor,
    right: torch.Tensor,
    tolerance: torch.Tensor | None,
    otherwise: str = "is further from the reference than rounding explains",
) -> Mismatch:
    """The first wrong element, and how many there are."""
    wrong = int((~right).sum())
    where = tuple(torch.nonzero(~right)[0].tolist())
    got, wanted = float(actual[where]), float(expected[where])
    allowed = "none" if tolerance is None else f"{float(tolerance.expand(expected.shape)[where]):.3g}"
    if got != got and wanted == wanted:
        reason = f"{name} is NaN where a number belongs"
    elif wanted != wanted and got == got:
        reason = f"{name} is a number where NaN belongs"
    elif float("inf") in (abs(got), abs(wanted)):
        reason = f"{name} and the reference disagree about infinity"
    else:
        reason = f"{name} {otherwise}"
    index = ", ".join(map(str, where))
    return Mismatch(
        reason,
        f"{name}[{index}]: expected {wanted:.9g}, got {got:.9g}, allowed error {allowed}; "
        f"{wrong} of {right.numel()} elements are wrong",
    )
