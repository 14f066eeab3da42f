"""Proven: on which dtypes and sizes was the champion judged? Outside of that the exported package falls back.

A size is proven up to the greatest that a workload can have, and a tensor up to the most elements: that is how far the
program's index arithmetic has been seen to hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from kevolve.operators.operator import Operator, Workload, dimension

_DRAWS = 3  # of a workload whose sizes are not known beforehand


@dataclass(frozen=True)
class Proven:
    """`variants` are pairs (dtype, index dtype); `scalars` gives least and greatest, `elements` a tensor's most."""

    variants: tuple[tuple[str, str], ...]
    scalars: Mapping[str, tuple[int, int]]
    elements: Mapping[str, int]


def proven_by(operator: Operator) -> Proven:
    """What the operator's workloads cover, adversarial ones included: a champion is right on all of them."""
    seen: dict[str, list[int]] = {argument.name: [] for argument in operator.arguments if argument.kind == "scalar"}
    elements: dict[str, int] = {argument.name: 0 for argument in operator.arguments if argument.kind != "scalar"}
    for workload in operator.workloads:
        rng = torch.Generator().manual_seed(0)
        for _ in range(_DRAWS):
            scalars = operator.draw_scalars(workload, rng)
            for name, value in scalars.items():
                seen[name].append(value)
            for name, shape in operator.shapes(scalars).items():
                elements[name] = max(elements[name], math.prod(shape))
        for name, most in (operator.capacity(workload) or {}).items():
            elements[name] = max(elements[name], most)
        for name, most in _drawn_at_most(operator, workload).items():
            seen[name].append(most)
    variants = sorted({(workload.dtype, workload.index_dtype) for workload in operator.workloads})
    return Proven(tuple(variants), {name: (min(values), max(values)) for name, values in seen.items()}, elements)


def _drawn_at_most(operator: Operator, workload: Workload) -> dict[str, int]:
    """The greatest value of each scalar that is drawn: what the capacity of a tensor leaves for it."""
    capacity = operator.capacity(workload) or {}
    found: dict[str, int] = {}
    for argument in operator.arguments:
        drawn = [length for length in argument.shape if length.isidentifier() and length not in workload.sizes]
        if len(drawn) != 1 or argument.name not in capacity:
            continue
        others = [dimension(length, workload.sizes) for length in argument.shape if length != drawn[0]]
        if all(others):
            found[drawn[0]] = capacity[argument.name] // math.prod(others)
    return found
