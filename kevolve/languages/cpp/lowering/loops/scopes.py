"""Where statements go while a program is built: blocks, loop variables, names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kevolve.languages.cpp.lowering.expressions import C_TYPES, Expression, local
from kevolve.languages.cpp.lowering.indices import ONE, ZERO, Counter, Index, counter
from kevolve.languages.cpp.lowering.loops.blocks import Block, Declaration
from kevolve.languages.cpp.lowering.loops.names import Names
from kevolve.languages.cpp.lowering.tensors import Indices

LETTERS = "ijklmnpqrstuvw"


class Scopes:
    """The block that is being written, inside the blocks around it. `taken` are names that arguments have."""

    def __init__(self, taken: Sequence[str]):
        self.names = Names(taken)
        self.letters = [letter for letter in LETTERS if letter not in taken]
        self.top = self.here = Block()
        self.loaded: dict[Index, frozenset[Counter]] = {}  # symbols that stand for loaded integers, by their loops

    @contextmanager
    def within(self, block: Block) -> Iterator[None]:
        """Statements go to the end of `block` for a while."""
        before, self.here = self.here, block
        try:
            yield
        finally:
            self.here = before

    @contextmanager
    def loop(self, first: Index, past: Index, output: str = "", dim: int = -1) -> Iterator[Counter]:
        """A loop at the end of the present block."""
        depth = len(self.here.path) - 1
        name = self.letters[depth] if depth < len(self.letters) else self.names.fresh("at")
        variable = counter(name, past if first == 0 and not self.loaded.keys() & past.free_symbols else None)
        block = Block(self.here, variable, first, past, output, dim)
        with self.within(block):
            yield variable
        self.here.statements.append(block)
        block.is_closed = True

    @contextmanager
    def loops(self, ranges: Sequence[tuple[Index, Index]]) -> Iterator[Indices]:
        """Loops inside each other; none where there is one element."""
        if not ranges:
            yield ()
        elif ranges[0] == (ZERO, ONE):
            with self.loops(ranges[1:]) as rest:
                yield (ZERO, *rest)
        else:
            with self.loop(*ranges[0]) as variable, self.loops(ranges[1:]) as rest:
                yield (variable, *rest)

    def counters(self, indices: Sequence[Index]) -> frozenset[Counter]:
        """The loops that indices depend on, by themselves or through what was loaded."""
        found: set[Counter] = set()
        for symbol in frozenset().union(*(index.free_symbols for index in indices)):
            found |= self.loaded.get(symbol, {symbol} if isinstance(symbol, Counter) else set())
        return frozenset(found)

    def home(self, counters: frozenset[Counter]) -> Block:
        """The outermost block that knows all of the counters."""
        return next((block for block in reversed(self.here.path) if block.counter in counters), self.top)

    def named(self, name: str, value: Expression) -> Expression:
        """The value as a variable of the present block."""
        fresh = self.names.fresh(name)
        self.here.statements.append(Declaration(C_TYPES[value.kind], fresh, value))
        return local(fresh, value.kind, value.counters)
