"""What building a program found out about itself, and the small records of building."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kevolve.languages.cpp.lowering.expressions import Expression, constant, local
from kevolve.languages.cpp.lowering.indices import Index, position
from kevolve.languages.cpp.lowering.loops.blocks import Block
from kevolve.languages.cpp.lowering.tensors import Fold, Indices, Tensor

DEEPEST = 99


class Revised(Exception):
    """The plan has changed: build again."""


@dataclass
class Plan:
    """What became memory, under how many loops at most it is produced, and which dimensions of an output go first."""

    depths: dict[Tensor, int] = field(default_factory=dict)
    first: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def remember(self, tensor: Tensor, depth: int = DEEPEST) -> Revised:
        """Make a tensor memory, produced under `depth` loops or fewer."""
        self.depths[tensor] = min(self.depths.get(tensor, DEEPEST), depth)
        return Revised()


@dataclass(frozen=True)
class Store:
    """Elements of an output: `tensor` at `indices`, to be put at `offset` further along; `order` is still to do."""

    tensor: Tensor
    output: str
    shape: Indices
    offset: Indices
    indices: Indices
    order: tuple[int, ...]

    def at(self, dim: int, index: Index) -> Store:
        """The same under a loop over one of its dimensions."""
        indices = (*self.indices[:dim], index, *self.indices[dim + 1 :])
        return replace(self, indices=indices, order=tuple(d for d in self.order if d != dim))


@dataclass(frozen=True)
class Buffer:
    """Memory for a tensor. `fixed` are the loops around its production by dimension, outermost first."""

    name: str
    fixed: Mapping[int, Block]


def element(base: str, indices: Indices, shape: Indices) -> str:
    """The text of an element of memory."""
    return f"{base}[{position(indices, shape)}]"


def start_of(fold: Fold, kind: str) -> Expression:
    """What a fold starts from."""
    if fold in ("any", "all"):
        return constant(fold == "all", "bool")
    if fold in ("sum", "product"):
        return constant(0 if fold == "sum" else 1, "int" if kind != "float" else "float")
    is_max = fold != "min"
    if kind == "float":
        return constant(float("-inf") if is_max else float("inf"), "float")
    return local("INT64_MIN" if is_max else "INT64_MAX", "int")
