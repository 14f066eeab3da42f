"""Operations that only rearrange elements, and tensors that are made from nothing."""

from __future__ import annotations

from typing import Any

import sympy

from kevolve.languages.cpp.lowering.expressions import Expression, Kind, choice, constant, infix
from kevolve.languages.cpp.lowering.indices import ONE, ZERO, Index, flattened, product, unflattened
from kevolve.languages.cpp.lowering.operations.calls import Call, as_tensor, lowers, of_size
from kevolve.languages.cpp.lowering.tensors import (
    Cost,
    Formula,
    Indices,
    Joined,
    Reader,
    Tensor,
    View,
    broadcast,
    cost_of,
)


def reshaped(name: str, base: Tensor, shape: Indices) -> Tensor:
    """The elements in the same order under another shape."""
    if base.shape == shape:
        return base
    groups = _groups(base.shape, shape)

    def place(indices: Indices) -> Indices:
        found: list[Index] = [ZERO] * len(base.shape)
        for inner, outer in groups:
            flat = flattened([indices[d] for d in outer], [shape[d] for d in outer])
            for d, index in zip(inner, unflattened(flat, [base.shape[d] for d in inner]), strict=True):
                found[d] = index
        return tuple(found)

    return View(shape, base.kind, name, base, place, is_reshape=True)


def _groups(inner: Indices, outer: Indices) -> list[tuple[list[int], list[int]]]:
    """Runs of dimensions of both shapes that hold the same elements, dimensions of one element left out."""
    ins = [d for d, extent in enumerate(inner) if extent != ONE]
    outs = [d for d, extent in enumerate(outer) if extent != ONE]
    groups: list[tuple[list[int], list[int]]] = []
    ends: list[tuple[list[int], list[int]]] = []
    while ins and outs and inner[ins[-1]] == outer[outs[-1]]:
        ends.append(([ins.pop()], [outs.pop()]))
    while ins and outs:
        left, right = [ins.pop(0)], [outs.pop(0)]
        while (ratio := _ratio(left, right, inner, outer)) != ONE and (ins or outs):
            if ins and (ratio.is_polynomial() or not outs):
                left.append(ins.pop(0))
            else:
                right.append(outs.pop(0))
        groups.append((left, right))
    if ins or outs:
        groups.append((ins, outs))
    return groups + ends[::-1]


def _ratio(left: list[int], right: list[int], inner: Indices, outer: Indices) -> Any:
    """Elements still missing on the left: a polynomial as long as the right has more."""
    return sympy.cancel(product([outer[d] for d in right]) / product([inner[d] for d in left]))


@lowers(*"view.default reshape.default _unsafe_view.default flatten.using_ints unflatten.int view_as.default".split())
@lowers(*"unsqueeze.default squeeze.default squeeze.dim squeeze.dims ravel.default reshape_as.default".split())
def _reshape(c: Call) -> Tensor:
    return reshaped(c.name, c.tensor("self"), c.shape)


@lowers("expand.default", "expand_as.default", "broadcast_to.default")
def _expand(c: Call) -> Tensor:
    base = c.tensor("self")
    return View(c.shape, base.kind, c.name, base, lambda indices: broadcast(indices, base.shape))


def permuted(name: str, base: Tensor, dims: list[int]) -> Tensor:
    """Dimension d of the result is dimension dims[d] of the base."""

    def place(indices: Indices) -> Indices:
        found = [ZERO] * len(dims)
        for index, d in zip(indices, dims, strict=True):
            found[d] = index
        return tuple(found)

    return View(tuple(base.shape[d] for d in dims), base.kind, name, base, place)


@lowers(*"permute.default transpose.int t.default movedim.int swapaxes.default numpy_T.default mT.default".split())
def _permute(c: Call) -> Tensor:
    base = c.tensor("self")
    rank = len(base.shape)
    if c["dims"] is not None:
        dims = [d % rank for d in c["dims"]]
    elif c["dim0"] is not None or c["axis0"] is not None:
        one, other = (c["dim0"], c["dim1"]) if c["dim0"] is not None else (c["axis0"], c["axis1"])
        dims = list(range(rank))
        dims[one % rank], dims[other % rank] = dims[other % rank], dims[one % rank]
    elif c["source"] is not None:
        dims = [d for d in range(rank) if d != c["source"] % rank]
        dims.insert(c["destination"] % rank, c["source"] % rank)
    else:
        dims = list(range(rank))
        dims[-2:] = dims[-2:][::-1]
    return permuted(c.name, base, dims)


def _number(value: Any) -> Index:
    return sympy.Integer(value) if isinstance(value, int) else value


def _start(value: Any, extent: Index) -> Index:
    """A position that may count from the end."""
    number = _number(value if value is not None else 0)
    return number + extent if number.is_negative else number


@lowers("slice.Tensor", "narrow.default")
def _slice(c: Call) -> Tensor:
    base = c.tensor("self")
    dim = (c["dim"] or 0) % len(base.shape)
    start, step = _start(c["start"], base.shape[dim]), _number(c["step"] if c["step"] is not None else 1)

    def place(indices: Indices) -> Indices:
        return (*indices[:dim], start + step * indices[dim], *indices[dim + 1 :])

    return base if base.shape == c.shape and step == 1 else View(c.shape, base.kind, c.name, base, place)


def selected(name: str, base: Tensor, dim: int, at: Index) -> Tensor:
    """The slice of the base at one position of a dimension, without that dimension."""
    shape = (*base.shape[:dim], *base.shape[dim + 1 :])
    return View(shape, base.kind, name, base, lambda indices: (*indices[:dim], at, *indices[dim:]))


@lowers("select.int")
def _select(c: Call) -> Tensor:
    base = c.tensor("self")
    dim = c["dim"] % len(base.shape)
    return selected(c.name, base, dim, _start(c["index"], base.shape[dim]))


@lowers("unbind.int")
def _unbind(c: Call) -> list[Tensor]:
    base = c.tensor("self")
    dim = (c["dim"] or 0) % len(base.shape)
    return [selected(c.name, base, dim, sympy.Integer(number)) for number in range(len(c.shapes))]


@lowers(*"split.Tensor split.sizes split_with_sizes.default chunk.default tensor_split.sections".split())
def _split(c: Call) -> list[Tensor]:
    base = c.tensor("self")
    dim = (c["dim"] or 0) % len(base.shape)
    parts: list[Tensor] = []
    start: Index = ZERO
    for shape in c.shapes:

        def place(indices: Indices, start: Index = start) -> Indices:
            return (*indices[:dim], start + indices[dim], *indices[dim + 1 :])

        parts.append(View(shape, base.kind, c.name, base, place))
        start = start + shape[dim]
    return parts


@lowers("flip.default")
def _flip(c: Call) -> Tensor:
    base = c.tensor("self")
    dims = c.dims("dims", len(base.shape))

    def place(indices: Indices) -> Indices:
        return tuple(base.shape[d] - 1 - index if d in dims else index for d, index in enumerate(indices))

    return View(c.shape, base.kind, c.name, base, place)


@lowers("diagonal.default")
def _diagonal(c: Call) -> Tensor:
    base = c.tensor("self")
    rank, offset = len(base.shape), c["offset"] or 0
    one, other = (c["dim1"] or 0) % rank, (c["dim2"] if c["dim2"] is not None else 1) % rank

    def place(indices: Indices) -> Indices:
        found = list(indices[:-1])
        for d in sorted((one, other)):
            found.insert(d, indices[-1] + max(0, -offset if d == one else offset))
        return tuple(found)

    return View(c.shape, base.kind, c.name, base, place)


def joined(name: str, parts: list[Tensor], dim: int, shape: Indices, kind: Kind) -> Tensor:
    """The parts one after the other along a dimension."""

    def element(reader: Reader, indices: Indices) -> Expression:
        def at(number: int, start: Index) -> Expression:
            moved = (*indices[:dim], indices[dim] - start, *indices[dim + 1 :])
            if number == len(parts) - 1:
                return reader.read(parts[number], moved)
            past = start + parts[number].shape[dim]
            inside = infix("<", reader.value_of(indices[dim]), reader.value_of(past), "bool")
            return reader.guarded(inside, lambda: reader.read(parts[number], moved), lambda: at(number + 1, past))

        return at(0, ZERO)

    return Joined(shape, kind, name, element, max(map(cost_of, parts)), tuple(parts), dim)


@lowers("cat.default", "concat.default", "concatenate.default")
def _cat(c: Call) -> Tensor:
    parts = [part for part in map(as_tensor, c["tensors"]) if part.shape != (ZERO,)]
    return joined(c.name, parts, (c["dim"] or 0) % len(c.shape), c.shape, c.kind)


@lowers("stack.default")
def _stack(c: Call) -> Tensor:
    dim = (c["dim"] or 0) % len(c.shape)
    shape = (*c.shape[:dim], ONE, *c.shape[dim + 1 :])
    parts = [reshaped(part.name, part, shape) for part in map(as_tensor, c["tensors"])]
    return joined(c.name, parts, dim, c.shape, c.kind)


@lowers("constant_pad_nd.default")
def _pad(c: Call) -> Tensor:
    base, pads = c.tensor("self"), list(map(_number, c["pad"]))
    rank = len(base.shape)
    before = {rank - 1 - d: pads[2 * d] for d in range(len(pads) // 2)}
    after = {rank - 1 - d: pads[2 * d + 1] for d in range(len(pads) // 2)}
    value = constant(c["value"] or 0, base.kind)

    def element(reader: Reader, indices: Indices) -> Expression:
        moved = tuple(index - before.get(d, ZERO) for d, index in enumerate(indices))
        tests = []
        for d in sorted(before):
            if before[d] != 0:
                tests.append(infix(">=", reader.value_of(indices[d]), reader.value_of(before[d]), "bool"))
            if after[d] != 0:
                limit = reader.value_of(before[d] + base.shape[d])
                tests.append(infix("<", reader.value_of(indices[d]), limit, "bool"))
        if not tests:
            return reader.read(base, moved)
        inside = tests[0]
        for test in tests[1:]:
            inside = infix("&&", inside, test, "bool")
        return reader.guarded(inside, lambda: reader.read(base, moved), lambda: value)

    return Formula(c.shape, base.kind, c.name, element, cost_of(base))


def filled(name: str, shape: Indices, kind: Kind, value: float | int | bool) -> Tensor:
    """One number everywhere."""
    return Formula(shape, kind, name, lambda reader, indices: constant(value, kind), Cost.FREE)


@lowers("zeros.default", "zeros_like.default", "new_zeros.default")
@lowers("empty.memory_format", "empty_like.default", "new_empty.default")
def _zeros(c: Call) -> Tensor:
    return filled(c.name, c.shape, c.kind, 0)


@lowers("ones.default", "ones_like.default", "new_ones.default")
def _ones(c: Call) -> Tensor:
    return filled(c.name, c.shape, c.kind, 1)


@lowers("full.default", "full_like.default", "new_full.default", "scalar_tensor.default", "fill.Scalar")
def _full(c: Call) -> Tensor:
    value = next(c[name] for name in ("fill_value", "s", "value") if c[name] is not None)
    if isinstance(value, (bool, int, float)):
        return filled(c.name, c.shape, c.kind, value)
    base = of_size(value)
    return View(c.shape, c.kind, c.name, base, lambda indices: ())


@lowers("arange.default", "arange.start", "arange.start_step")
def _arange(c: Call) -> Tensor:
    start, step = (c["start"] or 0), (c["step"] if c["step"] is not None else 1)
    if isinstance(start, float) or isinstance(step, float):
        first, by = constant(start, "float"), constant(step, "float")

        def fraction(reader: Reader, indices: Indices) -> Expression:
            return infix("+", first, infix("*", reader.value_of(indices[0]), by, "float"), "float")

        return Formula(c.shape, c.kind, c.name, fraction, Cost.FREE)

    def element(reader: Reader, indices: Indices) -> Expression:
        return reader.value_of(_number(start) + _number(step) * indices[0])

    return Formula(c.shape, c.kind, c.name, element, Cost.FREE)


@lowers("tril.default", "triu.default")
def _triangle(c: Call) -> Tensor:
    base, diagonal, sign = c.tensor("self"), c["diagonal"] or 0, "<=" if c.operation.startswith("tril") else ">="

    def element(reader: Reader, indices: Indices) -> Expression:
        inside = infix(sign, reader.value_of(indices[-1]), reader.value_of(indices[-2] + diagonal), "bool")
        return reader.guarded(inside, lambda: reader.read(base, indices), lambda: constant(0, base.kind))

    return Formula(c.shape, c.kind, c.name, element, cost_of(base))


@lowers("select_scatter.default")
def _select_scatter(c: Call) -> Tensor:
    base, source = c.tensor("self"), c.tensor("src")
    dim = c["dim"] % len(base.shape)
    at = _start(c["index"], base.shape[dim])

    def element(reader: Reader, indices: Indices) -> Expression:
        here = infix("==", reader.value_of(indices[dim]), reader.value_of(at), "bool")
        return choice(here, reader.read(source, (*indices[:dim], *indices[dim + 1 :])), reader.read(base, indices))

    return Formula(c.shape, base.kind, c.name, element, max(cost_of(base), cost_of(source)))


@lowers("slice_scatter.default")
def _slice_scatter(c: Call) -> Tensor:
    base, source = c.tensor("self"), c.tensor("src")
    dim = (c["dim"] or 0) % len(base.shape)
    start, step = _start(c["start"], base.shape[dim]), c["step"] if c["step"] is not None else 1
    if step != 1:
        raise c.unsupported("with a step has no lowering")
    past = start + source.shape[dim]
    is_open = past == base.shape[dim]

    def element(reader: Reader, indices: Indices) -> Expression:
        at = reader.value_of(indices[dim])
        tests = [] if start == 0 else [infix(">=", at, reader.value_of(start), "bool")]
        tests += [] if is_open else [infix("<", at, reader.value_of(past), "bool")]
        if not tests:
            return reader.read(source, indices)
        inside = tests[0] if len(tests) == 1 else infix("&&", tests[0], tests[1], "bool")
        moved = (*indices[:dim], indices[dim] - start, *indices[dim + 1 :])
        return reader.guarded(inside, lambda: reader.read(source, moved), lambda: reader.read(base, indices))

    return Formula(c.shape, base.kind, c.name, element, max(cost_of(base), cost_of(source)))


@lowers("copy.default", "fill.Tensor")
def _copy(c: Call) -> Tensor:
    source = c.tensor("src" if c["src"] is not None else "value")
    return View(c.shape, source.kind, c.name, source, lambda indices: broadcast(indices, source.shape))
