"""Tolerance: how far may an honest float32 program be from the exact answer of an operator that nobody analysed?

Each output element is allowed the roundoff of its own size and of its sensitivity, which is how much the exact answer
moves when all inputs move by a random roundoff. Sums in any order lose about the square root of their number of terms
as much; what the reference itself loses in float32 beyond that (by cancelling inside) is allowed everywhere.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch

from kevolve.errors import UsageError
from kevolve.operators.checks import FLOAT32_ROUNDOFF, SMALLEST, output_rounding
from kevolve.operators.custom.parts import is_floating
from kevolve.operators.inputs import shifted_copy

Exactly = Callable[[Mapping[str, Any]], dict[str, torch.Tensor]]

STEP = FLOAT32_ROUNDOFF  # so that a comparison flips where float32 rounding would flip it
SAMPLES = 4
PERIOD = 262_139  # of the noise; a prime, so that no shape lines up with it
SHARE, MOST = 4 * FLOAT32_ROUNDOFF, 2.0**-13  # of an element for one term, and for however many
SAMPLED_ELEMENTS = 3
ROW = 16  # elements that are enough to know a row's typical sensitivity


class ExactAnswer(dict[str, torch.Tensor]):
    """An exact answer by output name. Its sensitivity is found when it is needed: most right answers need none."""

    def __init__(self, answer: Mapping[str, torch.Tensor]) -> None:
        super().__init__(answer)
        self._sensitivity: dict[str, torch.Tensor] | None = None

    def sensitivity(self, exactly: Exactly, values: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Of every floating output, by element: how far it moves, over a roundoff, when all inputs move by one."""
        if self._sensitivity is None:
            self._sensitivity = _sensitivity(exactly, values, self)
        return self._sensitivity


@torch.no_grad()
def _sensitivity(
    exactly: Exactly, values: Mapping[str, Any], answer: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The root mean square over a few random moves, of relative size `STEP` for every element of every input."""
    moving = {name: part for name, part in answer.items() if part.is_floating_point()}
    squares = {name: torch.zeros_like(part) for name, part in moving.items()}
    draw = random.Random(0)
    for _ in range(SAMPLES if any(map(is_floating, values.values())) else 0):
        moved = exactly({name: _moved(value, draw) if is_floating(value) else value for name, value in values.items()})
        for name, part in moving.items():
            squares[name] += moved[name].sub(part).div_(STEP).square_()
    return {name: _typical(square.div_(SAMPLES).sqrt_()) for name, square in squares.items()}


def allowed(
    expected: torch.Tensor, sensitivity: torch.Tensor | None, terms: int, floor: float, dtype: torch.dtype
) -> torch.Tensor:
    """The error that each element of an output in `dtype` may have, float64. `floor` is the reference's own.

    Without the sensitivity it is less: an answer that is within that is right for certain.
    """
    share = min(SHARE * math.sqrt(terms), MOST)
    size = expected.abs() if sensitivity is None else expected.abs() + sensitivity
    return size * share + output_rounding(expected, dtype) + (floor + SMALLEST)


def count_terms(exactly: Exactly, values: Mapping[str, Any], answer: ExactAnswer) -> dict[str, int]:
    """By floating output, the most input elements that one of its elements depends on: no sum has more terms.

    Counted by gradients of a few elements; where there are none, guessed from the shapes.
    """
    leaves = {name: value.clone().requires_grad_() for name, value in values.items() if is_floating(value)}
    guess = _guessed_terms(values, answer)
    sensitivities = answer.sensitivity(exactly, values)
    try:
        with torch.enable_grad():
            reached = exactly({**values, **leaves})
            return {
                name: max(1, *(_reach(reached[name], index, list(leaves.values())) for index in _sampled(sensitivity)))
                if sensitivity.numel() and reached[name].requires_grad
                else guess
                for name, sensitivity in sensitivities.items()
            }
    except (RuntimeError, UsageError):  # something in it has no derivative
        return dict.fromkeys(sensitivities, guess)


def _reach(output: torch.Tensor, index: int, leaves: list[torch.Tensor]) -> int:
    grads = torch.autograd.grad(output.reshape(-1)[index], leaves, retain_graph=True, allow_unused=True)
    return sum(int(torch.count_nonzero(grad)) for grad in grads if grad is not None)


def _sampled(sensitivity: torch.Tensor) -> list[int]:
    """Elements to look at: the most and the least sensitive, which have the longest sums if lengths vary, and any."""
    flat = sensitivity.reshape(-1)
    each = min(SAMPLED_ELEMENTS // 3, len(flat))
    extremes = [*flat.topk(each).indices.tolist(), *flat.topk(each, largest=False).indices.tolist()]
    return sorted({*extremes, *random.Random(0).sample(range(len(flat)), each)})


def _guessed_terms(values: Mapping[str, Any], answer: Mapping[str, torch.Tensor]) -> int:
    """All input elements over all outputs, or the longest dimension of an input."""
    tensors = [value for value in values.values() if isinstance(value, torch.Tensor)]
    read = sum(tensor.numel() for tensor in tensors)
    written = max(1, sum(part.numel() for part in answer.values()))
    return max(1, read // written, *(length for tensor in tensors for length in tensor.shape))


def _typical(sensitivity: torch.Tensor) -> torch.Tensor:
    """At least half of what is usual in the element's row: a few samples may happen to cancel."""
    sensitivity.nan_to_num_(0.0, 0.0, 0.0)
    if sensitivity.numel() == 0:
        return sensitivity
    if sensitivity.dim() > 0 and sensitivity.shape[-1] >= ROW:
        usual = sensitivity.median(dim=-1, keepdim=True).values
    else:
        usual = sensitivity.median()
    return torch.maximum(sensitivity, usual / 2)


def _moved(value: torch.Tensor, draw: random.Random) -> torch.Tensor:
    factors = torch.empty(value.numel(), dtype=torch.float64, device=value.device)
    return shifted_copy(_factors(value.device), factors, draw.randrange(PERIOD)).view(value.shape).mul_(value)


@cache
def _factors(device: torch.device) -> torch.Tensor:
    """One and a random roundoff, drawn once: drawing them anew would take longer than most references."""
    drawn = torch.randn(PERIOD, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return drawn.mul_(STEP).add_(1.0).to(device)
