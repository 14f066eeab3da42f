"""Tensors that are not computed yet: a shape, a kind, and how to get one element from other tensors' elements.

The operations of a reference become a graph of these; `nests.py` decides which become memory, which a
scalar inside a loop, and which vanish into the expressions that use them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, Protocol

from kevolve.languages.cpp.lowering.expressions import Expression, Kind, cast
from kevolve.languages.cpp.lowering.indices import ONE, ZERO, Index

Indices = tuple[Index, ...]
Fold = Literal["sum", "product", "max", "min", "plain_max", "any", "all", "argmax", "argmin"]


class Reader(Protocol):
    """What an element's formula may ask of the program under construction."""

    def read(self, tensor: Tensor, indices: Indices) -> Expression:
        """An element of another tensor."""
        ...

    def value_of(self, index: Index) -> Expression:
        """An index as a value."""
        ...

    def index_of(self, value: Expression, name: str = "index") -> Index:
        """An integer value as an index; `name` is for the variable that may hold it."""
        ...

    def guarded(self, condition: Expression, yes: Read, no: Read) -> Expression:
        """condition ? yes : no, where each may be read only if it is chosen."""
        ...


Read = Callable[[], Expression]


class Cost(IntEnum):
    """How much work an element is: worth repeating, worth keeping, or worth choosing an order of loops for."""

    FREE = 0
    FUNCTION = 1
    FOLD = 2


@dataclass(frozen=True, eq=False)
class Tensor:
    """Base of all: `name` is what a variable that holds it is called."""

    shape: Indices
    kind: Kind
    name: str


@dataclass(frozen=True, eq=False)
class Input(Tensor):
    """An argument of the entry point. `is_value`: its memory holds VALUEs."""

    is_value: bool


@dataclass(frozen=True, eq=False)
class View(Tensor):
    """Another tensor's elements in another order: never worth memory of its own.

    `is_reshape`: the same elements in the same order, under another shape.
    """

    base: Tensor
    place: Callable[[Indices], Indices]
    is_reshape: bool = False


@dataclass(frozen=True, eq=False)
class Formula(Tensor):
    """Each element from its indices alone."""

    element: Callable[[Reader, Indices], Expression]
    cost: Cost


@dataclass(frozen=True, eq=False)
class Joined(Formula):
    """Parts one after the other along dimension `dim`."""

    parts: tuple[Tensor, ...]
    dim: int


Ranges = Callable[[Reader, Indices], Sequence[tuple[Index, Index]]]


@dataclass(frozen=True, eq=False)
class Reduction(Tensor):
    """Each element by folding `element(reader, indices, inner)` over `ranges`, pairs of first and past the last."""

    fold: Fold
    ranges: Ranges
    element: Callable[[Reader, Indices, Indices], Expression]


@dataclass(frozen=True, eq=False)
class Scan(Tensor):
    """Running sums or products of `source` along `dim`."""

    source: Tensor
    dim: int
    fold: Fold


@dataclass(frozen=True, eq=False)
class Scatter(Tensor):
    """`start`, then each element of `values` (of shape `extents`) put or folded in at `place`."""

    start: Tensor
    extents: Indices
    place: Callable[[Reader, Indices], Indices]
    value: Callable[[Reader, Indices], Expression]
    fold: Literal["put", "sum", "max", "min", "product"] = "sum"


def cost_of(tensor: Tensor) -> Cost:
    """What an element takes."""
    if isinstance(tensor, View):
        return cost_of(tensor.base)
    if isinstance(tensor, Formula):
        return tensor.cost
    return Cost.FREE if isinstance(tensor, Input) else Cost.FOLD


def broadcast(indices: Indices, shape: Indices) -> Indices:
    """The indices of the element that an operand of `shape` gives to a result at `indices`."""
    last = indices[len(indices) - len(shape) :]
    return tuple(ZERO if extent == ONE else index for index, extent in zip(last, shape, strict=True))


def pointwise(
    name: str,
    shape: Indices,
    kind: Kind,
    operands: Sequence[Tensor],
    combine: Callable[..., Expression],
    costly: bool = False,
) -> Formula:
    """`combine` of the operands' elements, broadcast to `shape`."""

    is_float = "float" in (kind, *(operand.kind for operand in operands))

    def element(reader: Reader, indices: Indices) -> Expression:
        found = [reader.read(operand, broadcast(indices, operand.shape)) for operand in operands]
        # Numbers are written as floats beside floats: 2.0f * x, not 2 * x.
        return combine(
            *(cast(e, "float") if is_float and e.number is not None and e.kind == "int" else e for e in found)
        )

    own = Cost.FUNCTION if costly else Cost.FREE
    return Formula(shape, kind, name, element, max((own, *map(cost_of, operands))))
