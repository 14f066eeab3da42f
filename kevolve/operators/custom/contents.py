"""Contents: what a user's operator is tried on beside what its make_inputs draws.

A program that is right only for numbers like those that happen to be drawn (it clamps what is never large, it skips a
maximum) is wrong for a user whose numbers differ. `Workload.values` names one of `CONTENTS`, or is any other name for
inputs as they are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from kevolve.operators.custom.parts import is_floating

_FACTORS = (1e3, 1e-3, -1.0, 0.0, 1.0)

Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def _times(factor: float, drawn: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return drawn * factor


def _row_by_row(drawn: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Every row of the last dimension times a factor of its own, every element of a tensor of one dimension."""
    shape = drawn.shape if drawn.ndim < 2 else (*drawn.shape[:-1], 1)
    factors = torch.tensor(_FACTORS, dtype=drawn.dtype, device=drawn.device)
    return drawn * factors[torch.randint(len(_FACTORS), shape, generator=rng, device=drawn.device)]


CONTENTS: Mapping[str, Change] = {
    "scaled_up": partial(_times, 1e3),
    "scaled_down": partial(_times, 1e-3),
    "negated": partial(_times, -1.0),
    "zeros": partial(_times, 0.0),
    "patchwork": _row_by_row,
}
MAKES_TIES = ("zeros", "patchwork")


def change(values: Mapping[str, Any], content: str, rng: torch.Generator) -> dict[str, Any]:
    """The inputs with every floating tensor changed as `content` says, as they are if it says nothing."""
    changed = CONTENTS.get(content)
    if changed is None:
        return dict(values)
    return {name: changed(value, rng) if is_floating(value) else value for name, value in values.items()}
