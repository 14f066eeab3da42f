"""What a program is made of: blocks of statements under loops."""

from __future__ import annotations

from dataclasses import dataclass, field

from kevolve.languages.cpp.lowering.expressions import Expression
from kevolve.languages.cpp.lowering.indices import Counter, Index
from kevolve.languages.cpp.lowering.tensors import Fold, Indices, Tensor


@dataclass(eq=False)
class Block:
    """The statements of one loop, or of the whole program. `memo` are elements that it has at hand."""

    parent: Block | None = None
    counter: Counter | None = None
    first: Index = None
    past: Index = None
    output: str = ""  # the output whose elements the loop counts, if it does and is the only one
    dim: int = -1
    is_closed: bool = False
    statements: list[Statement] = field(default_factory=list)
    memo: dict[tuple[Tensor, Indices], Expression] = field(default_factory=dict)

    @property
    def path(self) -> list[Block]:
        """The blocks around this one and itself, outermost first."""
        return [*(self.parent.path if self.parent is not None else []), self]


@dataclass(frozen=True)
class Declaration:
    """A variable and what it starts as."""

    type: str
    name: str
    value: Expression


@dataclass(frozen=True)
class Assignment:
    """target sign value; as a target an element of memory or a variable."""

    target: str
    value: Expression
    sign: str = "="


@dataclass(frozen=True)
class Folding:
    """A value folded into the variable called `name`; `position` is the index that argmax notes in `place`."""

    fold: Fold
    name: str
    value: Expression
    place: str = ""
    position: Index = None


Statement = Declaration | Assignment | Folding | Block
