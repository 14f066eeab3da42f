"""One call of an ATen operation, and the table of operations that have a lowering of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kevolve.languages.cpp.lowering.expressions import Kind, constant
from kevolve.languages.cpp.lowering.indices import Index
from kevolve.languages.cpp.lowering.tensors import Cost, Formula, Indices, Reader, Tensor
from kevolve.languages.cpp.lowering.unsupported import Unsupported


@dataclass(frozen=True)
class Call:
    """Arguments by the names of the operation's schema; shapes and kinds of what it returns."""

    operation: str
    name: str
    arguments: Mapping[str, Any]
    shapes: tuple[Indices, ...]
    kinds: tuple[Kind, ...]

    def __getitem__(self, name: str) -> Any:
        return self.arguments.get(name)

    @property
    def shape(self) -> Indices:
        """Shape of the first result."""
        return self.shapes[0]

    @property
    def kind(self) -> Kind:
        """Kind of the first result."""
        return self.kinds[0]

    def tensor(self, name: str) -> Tensor:
        """A tensor argument; a number becomes a tensor without dimensions."""
        return as_tensor(self.arguments[name])

    def dims(self, name: str, rank: int) -> list[int]:
        """A list of dimensions, counted from the front; all of them if none are given."""
        given = self.arguments.get(name)
        if isinstance(given, int):
            given = [given]
        return sorted({dim % max(rank, 1) for dim in given}) if given else list(range(rank))

    def unsupported(self, what: str) -> Unsupported:
        """The refusal to lower this call."""
        return Unsupported(f"{self.operation} {what}; write that part with other operations, or the program by hand")


def as_tensor(value: Any) -> Tensor:
    """A tensor, or a number or size as a tensor without dimensions."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (bool, int, float)):
        kind: Kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
        return Formula((), kind, "number", lambda reader, indices: constant(value, kind), Cost.FREE)
    return of_size(value)


def of_size(value: Index) -> Tensor:
    """A size as a tensor without dimensions."""

    def element(reader: Reader, indices: Indices) -> Any:
        return reader.value_of(value)

    return Formula((), "int", "size", element, Cost.FREE)


Lowering = Callable[[Call], Tensor | Sequence[Tensor | None]]
LOWERINGS: dict[str, Lowering] = {}


def lowers(*operations: str) -> Callable[[Lowering], Lowering]:
    """Registers a lowering for operations by their ATen names without the namespace: `add.Tensor`."""

    def register(lowering: Lowering) -> Lowering:
        LOWERINGS.update(dict.fromkeys(operations, lowering))
        return lowering

    return register
