"""Checks: does an answer agree with the oracle as far as honest rounding allows?

Operators build their `check` from these pieces. The tolerance is per element and comes from what the
arithmetic can lose: a float32 accumulation in any order, then one rounding to the output's dtype. It never
comes from what some kernel happened to return (evaluators.md 3).
"""

from __future__ import annotations

from collections.abc import Mapping

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
    return expected.abs() * torch.finfo(dtype).eps


def check_close(name: str, got: torch.Tensor, expected: torch.Tensor, tolerance: torch.Tensor) -> Mismatch | None:
    """|got - expected| <= tolerance wherever `expected` (float64) is finite; elsewhere the same NaN or infinity.

    `tolerance` is float64 and broadcasts to `expected`. Its value where `expected` is not finite is ignored.
    """
    actual = got.detach().cpu().double()
    # False for NaN, and for infinity against an infinite tolerance: neither is close to a number.
    right = (actual - expected).abs_().sub_(tolerance) <= 0
    if bool(right.all()):
        return None
    right |= (actual == expected) | (actual.isnan() & expected.isnan())
    return None if bool(right.all()) else _describe(name, actual, expected, right, tolerance)


def check_exact(name: str, got: torch.Tensor, expected: torch.Tensor) -> Mismatch | None:
    """`got` is `expected` (float64) correctly rounded to the dtype of `got`, bit for bit but for the sign of 0."""
    actual = got.detach().cpu()
    right = actual == expected.to(actual.dtype)
    if bool(right.all()):
        return None
    return _describe(name, actual.double(), expected, right, None, "is not exact where every order of summation is")


def check_bits(name: str, got: torch.Tensor, expected: torch.Tensor) -> Mismatch | None:
    """`got` is `expected`, of the same dtype, bit for bit: the sign of 0 and what a NaN carries included."""
    actual = got.detach().cpu().contiguous()
    wanted = expected.contiguous()
    bits = {2: torch.int16, 4: torch.int32}[wanted.element_size()]
    right = actual.view(bits) == wanted.view(bits)
    if bool(right.all()):
        return None
    return _describe(name, actual.double(), wanted.double(), right, None, "is not the copied value, bit for bit")


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
