"""From a graph of tensors to loop nests: what is computed where, and what becomes memory.

The program is built on demand, from its outputs backwards. An element that is asked for inside a loop is computed
in the outermost block that knows its indices: so the sum of a row becomes a scalar in the loop over rows, and every
later use in that loop finds it there. Only where that would repeat work (a loop around it that does not matter to
it, or a second nest that needs the same sum) a tensor becomes memory. That is noticed on the way: `Plan` notes
it and the program is built again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import sympy

from kevolve.languages.cpp.lowering.expressions import (
    ATOM,
    C_TYPES,
    Expression,
    Kind,
    choice,
    constant,
    load,
    local,
    of_index,
)
from kevolve.languages.cpp.lowering.indices import ONE, ZERO, Counter, Index, is_shared
from kevolve.languages.cpp.lowering.loops.blocks import Assignment, Block, Declaration, Folding
from kevolve.languages.cpp.lowering.loops.plan import DEEPEST, Buffer, Plan, Revised, Store, element, start_of
from kevolve.languages.cpp.lowering.loops.scopes import Scopes
from kevolve.languages.cpp.lowering.loops.writing import inline
from kevolve.languages.cpp.lowering.tensors import (
    Cost,
    Fold,
    Formula,
    Indices,
    Input,
    Joined,
    Read,
    Reduction,
    Scan,
    Scatter,
    Tensor,
    View,
    broadcast,
    cost_of,
)
from kevolve.languages.cpp.lowering.unsupported import Unsupported

DEEPEST_GUARD = 10  # the text of an element can double with each


class Nests(Scopes):
    """One attempt to build a program under a plan."""

    def __init__(self, plan: Plan, taken: Sequence[str]):
        self.plan = plan
        super().__init__(taken)
        self.buffers: dict[Tensor, Buffer] = {}
        self.indexed: dict[Expression, Expression] = {}
        self.folded: dict[Tensor, list[Tensor]] = {}  # reductions by the formulas that asked for them
        self.asking: list[Tensor] = []
        self.hints: dict[Expression, str] = {}
        self.guards = 0
        self.known: dict[str, bool] = {}  # conditions that guards around have settled

    # What formulas ask for (tensors.Reader)

    def value_of(self, index: Index) -> Expression:
        """An index as a value."""
        return constant(int(index), "int") if index.is_Integer else of_index(index, self.counters([index]))

    def index_of(self, value: Expression, name: str = "index") -> Index:
        """An integer value as an index: a variable where it is known first."""
        if value.index is not None or value.number is not None:
            return value.index if value.index is not None else sympy.Integer(int(value.number or 0))
        if self.guards:
            text = inline(value)
            symbol = sympy.Symbol(text if value.precedence == ATOM else f"({text})", integer=True, nonnegative=True)
        else:
            if value not in self.indexed:
                with self.within(self.home(value.counters)):
                    self.indexed[value] = value if value.is_leaf else self.named(name, value)
            symbol = sympy.Symbol(inline(self.indexed[value]), integer=True, nonnegative=True)
        self.loaded[symbol] = value.counters
        return symbol

    def guarded(self, condition: Expression, yes: Read, no: Read) -> Expression:
        """condition ? yes : no, each read only if it is chosen."""
        if condition.number is not None:
            return yes() if condition.number else no()
        text = inline(condition)
        if text in self.known:
            return yes() if self.known[text] else no()
        if self.guards >= DEEPEST_GUARD:
            raise Unsupported(
                "the reference writes to or joins too many slices of slices; join the parts once with cat"
            )
        self.guards += 1
        try:
            self.known[text] = True
            chosen = yes()
            self.known[text] = False
            return choice(condition, chosen, no(), guarded=True)
        finally:
            self.guards -= 1
            self.known.pop(text, None)

    def read(self, tensor: Tensor, indices: Indices) -> Expression:
        """An element of a tensor, computed in the outermost block that knows its indices."""
        if isinstance(tensor, View):
            return self.read(tensor.base, tensor.place(indices))
        if tensor in self.plan.depths or isinstance(tensor, (Scan, Scatter)):
            return self.buffered(tensor, indices)
        counters = self.counters(indices)
        home = self.home(counters)
        key = (tensor, indices)
        if key in home.memo:
            return self.at_hand(tensor, home, key)
        found = self.computed(tensor, indices, home, counters)
        if not self.guards or found.is_leaf:
            home.memo[key] = found
        if isinstance(tensor, Formula):
            self.hints.setdefault(found, tensor.name)
        return found

    def at_hand(self, tensor: Tensor, home: Block, key: tuple[Tensor, Indices]) -> Expression:
        """An element that was computed before; for a loop further in it gets a name, not to be computed each time."""
        found = home.memo[key]
        if home is not self.here and found.operands and not self.guards:
            with self.within(home):
                found = home.memo[key] = self.named(tensor.name, found)
        return found

    def computed(self, tensor: Tensor, indices: Indices, home: Block, counters: frozenset[Counter]) -> Expression:
        """An element that is not at hand yet."""
        if isinstance(tensor, Input):
            return load(tensor.name, indices, tensor.shape, tensor.kind, counters, tensor.is_value)
        repeated = [block for block in home.path[1:] if block.counter not in counters]
        if cost_of(tensor) > Cost.FREE and not self.guards and is_shared(indices):
            raise self.plan.remember(tensor)
        if cost_of(tensor) > Cost.FREE and repeated:
            raise self.revised(tensor, home, counters)
        if isinstance(tensor, Reduction):
            if self.guards:
                raise self.plan.remember(tensor, 0)
            if tensor in self.folded:
                raise self.plan.remember(self.widest(tensor))
            self.folded[tensor] = list(self.asking)
            with self.within(home), self.asked_by(tensor):
                return self.reduced(tensor, indices, counters)
        assert isinstance(tensor, Formula)
        with self.asked_by(tensor):
            if home is self.here or self.guards:
                return tensor.element(self, indices)
            with self.within(home):
                found = tensor.element(self, indices)
                return self.named(tensor.name, found) if found.operands else found

    @contextmanager
    def asked_by(self, tensor: Tensor) -> Iterator[None]:
        """Remembers for whom elements are read."""
        before = self.asking
        self.asking = [*before, tensor] if isinstance(tensor, Formula) else []
        try:
            yield
        finally:
            self.asking = before

    def widest(self, tensor: Reduction) -> Tensor:
        """What to keep when a reduction is asked for again: the last formula on the way that both uses share."""
        shared = (one for one in self.asking if one in self.folded[tensor] and one.shape == tensor.shape)
        return next(shared, tensor)

    def revised(self, tensor: Tensor, home: Block, counters: frozenset[Counter]) -> Revised:
        """A loop would repeat the work: another order of an output's loops, or else memory."""
        path = home.path[1:]
        output = path[0].output
        is_own = output and all(block.output == output for block in path)
        if cost_of(tensor) == Cost.FOLD and is_own and output not in self.plan.first:
            self.plan.first[output] = tuple(block.dim for block in path if block.counter in counters)
            return Revised()
        if self.plan.first.get(output):
            self.plan.first[output] = ()
            return Revised()
        return self.plan.remember(tensor)

    # Folds

    def reduced(self, tensor: Reduction, indices: Indices, counters: frozenset[Counter]) -> Expression:
        """Loops that fold into a variable of the present block."""
        block = self.here
        with self.loops(tensor.ranges(self, indices)) as inner:
            value = tensor.element(self, indices, inner)
            declarations, name, place = self.accumulator(tensor, value.kind)
            self.here.statements.append(Folding(tensor.fold, name, value, place, inner[-1] if place else None))
        # Directly before the loop: what the element needed from outside is computed above.
        block.statements[-1:-1] = declarations
        return local(place or name, tensor.kind, counters)

    def accumulator(self, tensor: Reduction, kind: Kind) -> tuple[list[Declaration], str, str]:
        """What is folded into: declarations, its name, and the name of its position for argmax and argmin."""
        name = self.names.fresh(tensor.name)
        if tensor.fold not in ("argmax", "argmin"):
            return [Declaration(C_TYPES[tensor.kind], name, start_of(tensor.fold, tensor.kind))], name, ""
        extreme = self.names.fresh("largest" if tensor.fold == "argmax" else "smallest")
        start = start_of("max" if tensor.fold == "argmax" else "min", kind)
        declarations = [
            Declaration(C_TYPES[kind], extreme, start),
            Declaration("int64_t", name, constant(0, "int")),
        ]
        return declarations, extreme, name

    # Memory

    def buffered(self, tensor: Tensor, indices: Indices) -> Expression:
        """An element of a tensor that is memory, produced first if it is not there yet."""
        if tensor not in self.buffers:
            self.produce(tensor, indices)
        buffer = self.buffers[tensor]
        for depth, (d, block) in enumerate(buffer.fixed.items()):
            # A loop that is not finished has produced its present part only, and that only for what it encloses.
            if not block.is_closed and (block not in self.here.path or indices[d] != block.counter):
                raise self.plan.remember(tensor, depth)
        return load(buffer.name, indices, tensor.shape, tensor.kind, self.counters(indices), False)

    def produce(self, tensor: Tensor, indices: Indices) -> None:
        """The loops that fill a tensor's memory: under the outermost loops that walk over it anyway."""
        home, fixed = self.top, dict[int, Block]()
        if not self.guards and not isinstance(tensor, Scatter):
            for block in self.here.path[1 : 1 + self.plan.depths.get(tensor, DEEPEST)]:
                dims = [d for d, index in enumerate(indices) if index == block.counter]
                is_whole = block.first == 0 and len(dims) == 1 and tensor.shape[dims[0]] == block.past
                if not is_whole or (isinstance(tensor, Scan) and dims[0] == tensor.dim):
                    break
                home = fixed[dims[0]] = block
        guards, known = self.guards, self.known
        self.guards, self.known = 0, {}
        buffer = Buffer(self.names.fresh(tensor.name), fixed)
        with self.within(home):
            if isinstance(tensor, Scatter):
                self.scatter(tensor, buffer.name)
            else:
                whole = tuple(fixed[d].counter if d in fixed else ZERO for d in range(len(tensor.shape)))
                order = tuple(d for d in range(len(whole)) if d not in fixed)
                self.stores([Store(tensor, buffer.name, tensor.shape, (ZERO,) * len(whole), whole, order)], False)
        self.buffers[tensor] = buffer
        self.guards, self.known = guards, known

    def scatter(self, tensor: Scatter, name: str) -> None:
        """Memory filled with the start, then the values put or folded in."""
        with self.loops([(ZERO, extent) for extent in tensor.shape]) as indices:
            value = self.read(tensor.start, broadcast(indices, tensor.start.shape))
            self.here.statements.append(Assignment(element(name, indices, tensor.shape), value))
        with self.loops([(ZERO, extent) for extent in tensor.extents]) as indices:
            place = element(name, tensor.place(self, indices), tensor.shape)
            value = tensor.value(self, indices)
            if tensor.fold in ("put", "sum", "product"):
                sign = {"put": "=", "sum": "+=", "product": "*="}[tensor.fold]
                self.here.statements.append(Assignment(place, value, sign))
            else:
                fold: Fold = "max" if tensor.fold == "max" else "min"
                self.here.statements.append(Folding(fold, place, value))

    # Outputs

    def output(self, tensor: Tensor, name: str) -> list[Store]:
        """The stores that write an output: one for each part where it is joined from parts."""
        while isinstance(tensor, View) and tensor.is_reshape:  # memory has no shape: loop as the elements are computed
            tensor = tensor.base
        rank = len(tensor.shape)
        pending, found = [(tensor, (ZERO,) * rank)], []
        while pending:
            part, offset = pending.pop(0)
            if isinstance(part, Joined) and part not in self.plan.depths:
                for piece in part.parts:
                    pending.append((piece, offset))
                    moved = offset[part.dim] + piece.shape[part.dim]
                    offset = (*offset[: part.dim], moved, *offset[part.dim + 1 :])
            else:
                first = self.plan.first.get(name, ())
                order = (*first, *(d for d in range(rank) if d not in first))
                found.append(Store(part, name, tensor.shape, offset, (ZERO,) * rank, order))
        return found

    def stores(self, pending: list[Store], is_output: bool = True) -> None:
        """Loops around the stores; those that run over the same range share a loop."""
        while pending:
            store = pending.pop(0)
            order = tuple(d for d in store.order if store.tensor.shape[d] != ONE)
            if isinstance(store.tensor, Scan) and store.tensor.dim in order:
                order = (*(d for d in order if d != store.tensor.dim), store.tensor.dim)
                if len(order) == 1:
                    self.scan(store, store.tensor)
                    continue
            if not order:
                value = self.made(store)
                place = tuple(a + b for a, b in zip(store.indices, store.offset, strict=True))
                self.here.statements.append(Assignment(element(store.output, place, store.shape), value))
                continue
            extent = store.tensor.shape[order[0]]
            group = [(store, order[0])]
            for other in list(pending):
                dims = [d for d in other.order if other.tensor.shape[d] != ONE]
                if dims and other.tensor.shape[dims[0]] == extent and not isinstance(other.tensor, Scan):
                    group.append((other, dims[0]))
                    pending.remove(other)
            name = store.output if is_output and len(group) == 1 else ""
            with self.loop(ZERO, extent, name, order[0]) as variable:
                self.stores([one.at(dim, variable) for one, dim in group], is_output)

    def made(self, store: Store) -> Expression:
        """The element to be stored; a tensor that is memory is computed here, not read from itself."""
        tensor = store.tensor
        if tensor in self.plan.depths and tensor not in self.buffers and not self.is_output(store):
            home = self.home(self.counters(store.indices))
            if isinstance(tensor, Reduction):
                with self.within(home):
                    return self.reduced(tensor, store.indices, self.counters(store.indices))
            assert isinstance(tensor, Formula)
            return tensor.element(self, store.indices)
        return self.read(tensor, store.indices)

    def is_output(self, store: Store) -> bool:
        """True if the store goes to an argument, not to memory of the program's own."""
        return store.output in self.names.given

    def scan(self, store: Store, tensor: Scan) -> None:
        """A running fold along the last loop, stored at every step."""
        name = self.names.fresh("sum" if tensor.fold == "sum" else "product")
        self.here.statements.append(Declaration(C_TYPES[tensor.kind], name, start_of(tensor.fold, tensor.kind)))
        with self.loop(ZERO, tensor.shape[tensor.dim]) as variable:
            indices = store.at(tensor.dim, variable).indices
            self.here.statements.append(Folding(tensor.fold, name, self.read(tensor.source, indices)))
            place = tuple(a + b for a, b in zip(indices, store.offset, strict=True))
            self.here.statements.append(Assignment(element(store.output, place, store.shape), local(name, tensor.kind)))
