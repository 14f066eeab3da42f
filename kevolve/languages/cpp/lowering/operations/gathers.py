"""Elements picked by index tensors, and elements sent to where index tensors say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import sympy

from kevolve.languages.cpp.lowering.expressions import Expression, choice, constant, infix
from kevolve.languages.cpp.lowering.indices import ONE, ZERO, Index
from kevolve.languages.cpp.lowering.operations.calls import Call, as_tensor, lowers
from kevolve.languages.cpp.lowering.tensors import (
    Cost,
    Formula,
    Indices,
    Reader,
    Reduction,
    Scatter,
    Tensor,
    broadcast,
    cost_of,
    pointwise,
)


def _picked(c: Call, base: Tensor, place: Any) -> Tensor:
    def element(reader: Reader, indices: Indices) -> Expression:
        return reader.read(base, place(reader, indices))

    return Formula(c.shape, base.kind, c.name, element, cost_of(base))


def _wrapped(reader: Reader, index: Tensor, at: Indices, extent: Index) -> Index:
    """An index that may count from the end."""
    value = reader.read(index, at)
    if value.index is not None:
        return value.index
    below = infix("<", value, constant(0, "int"), "bool")
    return reader.index_of(choice(below, infix("+", value, reader.value_of(extent), "int"), value))


@lowers("index_select.default", "embedding.default")
def _index_select(c: Call) -> Tensor:
    is_embedding = c.operation.startswith("embedding")
    base = c.tensor("weight" if is_embedding else "self")
    index = c.tensor("indices" if is_embedding else "index")
    dim = 0 if is_embedding else c["dim"] % len(base.shape)
    rank = len(index.shape) if is_embedding else 1

    def place(reader: Reader, indices: Indices) -> Indices:
        at = broadcast(indices[dim : dim + rank], index.shape) if index.shape else ()
        return (*indices[:dim], reader.index_of(reader.read(index, at)), *indices[dim + rank :])

    return _picked(c, base, place)


@lowers("gather.default")
def _gather(c: Call) -> Tensor:
    base, index = c.tensor("self"), c.tensor("index")
    dim = c["dim"] % len(base.shape)

    def place(reader: Reader, indices: Indices) -> Indices:
        return (*indices[:dim], reader.index_of(reader.read(index, indices)), *indices[dim + 1 :])

    return _picked(c, base, place)


def _indexed(c: Call, base: Tensor, given: Sequence[Any]) -> tuple[list[int], list[Tensor], int, int]:
    """(dimensions with an index, the indices, their broadcast rank, where that starts in the result)."""
    dims = [d for d, index in enumerate(given) if index is not None]
    tensors = [as_tensor(given[d]) for d in dims]
    if any(tensor.kind == "bool" for tensor in tensors):
        raise c.unsupported("with a mask has a result whose size depends on the content")
    rank = max(len(tensor.shape) for tensor in tensors)
    is_run = dims == list(range(dims[0], dims[0] + len(dims)))
    return dims, tensors, rank, dims[0] if is_run else 0


def _index_place(
    reader: Reader, base: Tensor, found: tuple[list[int], list[Tensor], int, int], indices: Indices
) -> Indices:
    dims, tensors, rank, start = found
    picked, rest = indices[start : start + rank], [*indices[:start], *indices[start + rank :]]
    place = []
    for d in range(len(base.shape)):
        if d in dims:
            tensor = tensors[dims.index(d)]
            place.append(_wrapped(reader, tensor, broadcast(picked, tensor.shape), base.shape[d]))
        else:
            place.append(rest.pop(0))
    return tuple(place)


@lowers("index.Tensor")
def _index(c: Call) -> Tensor:
    base = c.tensor("self")
    found = _indexed(c, base, c["indices"])
    return _picked(c, base, lambda reader, indices: _index_place(reader, base, found, indices))


@lowers("index_put.default", "_unsafe_index_put.default")
def _index_put(c: Call) -> Tensor:
    base, values = c.tensor("self"), c.tensor("values")
    if any(index is not None and as_tensor(index).kind == "bool" for index in c["indices"]):
        raise c.unsupported("with a mask has no lowering; use where")
    dims, tensors, rank, start = found = _indexed(c, base, c["indices"])
    picked: list[Index] = [ONE] * rank
    for tensor in tensors:
        for d, extent in enumerate(tensor.shape, rank - len(tensor.shape)):
            picked[d] = extent if picked[d] == ONE else picked[d]
    rest = [extent for d, extent in enumerate(base.shape) if d not in dims]
    extents = (*rest[:start], *picked, *rest[start:])
    return Scatter(
        base.shape,
        base.kind,
        c.name,
        base,
        extents,
        lambda reader, indices: _index_place(reader, base, found, indices),
        lambda reader, indices: reader.read(values, broadcast(indices, values.shape)),
        "sum" if c["accumulate"] else "put",
    )


@lowers("index_add.default", "index_copy.default")
def _index_add(c: Call) -> Tensor:
    base, index, source = c.tensor("self"), c.tensor("index"), c.tensor("source")
    dim, alpha = c["dim"] % len(base.shape), c["alpha"] if c["alpha"] is not None else 1

    def place(reader: Reader, indices: Indices) -> Indices:
        return (*indices[:dim], reader.index_of(reader.read(index, (indices[dim],))), *indices[dim + 1 :])

    def value(reader: Reader, indices: Indices) -> Expression:
        found = reader.read(source, indices)
        return found if alpha == 1 else infix("*", constant(alpha, base.kind), found, base.kind)

    fold: Literal["sum", "put"] = "sum" if c.operation.startswith("index_add") else "put"
    return Scatter(base.shape, base.kind, c.name, base, source.shape, place, value, fold)


_REDUCE: dict[str, Literal["sum", "product", "max", "min"]] = {
    "sum": "sum", "add": "sum", "prod": "product", "multiply": "product", "amax": "max", "amin": "min",
}  # fmt: skip


@lowers(
    "scatter_add.default",
    "scatter.src",
    "scatter.value",
    "scatter_reduce.two",
    "scatter.reduce",
    "scatter.value_reduce",
)
def _scatter(c: Call) -> Tensor:
    base, index = c.tensor("self"), c.tensor("index")
    source = c.tensor("src") if c["src"] is not None else c.tensor("value")
    dim = c["dim"] % len(base.shape)
    fold: Literal["put", "sum", "product", "max", "min"] = "sum" if c.operation.startswith("scatter_add") else "put"
    if c["reduce"] is not None:
        if c["reduce"] not in _REDUCE or c["include_self"] is False:
            raise c.unsupported(f"with reduce={c['reduce']!r} and include_self={c['include_self']} has no lowering")
        fold = _REDUCE[c["reduce"]]

    def place(reader: Reader, indices: Indices) -> Indices:
        return (*indices[:dim], reader.index_of(reader.read(index, indices)), *indices[dim + 1 :])

    def value(reader: Reader, indices: Indices) -> Expression:
        return reader.read(source, indices if source.shape else ())

    return Scatter(base.shape, base.kind, c.name, base, index.shape, place, value, fold)


@lowers(
    "embedding_bag.default",
    "embedding_bag.padding_idx",
    "_embedding_bag.default",
    "_embedding_bag_forward_only.default",
)
def _embedding_bag(c: Call) -> list[Tensor | None]:
    weight, index, offsets = c.tensor("weight"), c.tensor("indices"), c.tensor("offsets")
    mode, bags = c["mode"] or 0, c.shape[0]
    weights = c["per_sample_weights"]
    if mode == 2 or (c["padding_idx"] is not None and c["padding_idx"] != -1):
        raise c.unsupported("with mode='max' or a padding index has no lowering")

    def ranges(reader: Reader, indices: Indices) -> list[tuple[Index, Index]]:
        first = reader.index_of(reader.read(offsets, (indices[0],)), "start")
        if c["include_last_offset"]:
            return [(first, reader.index_of(reader.read(offsets, (indices[0] + 1,)), "end"))]
        is_last = infix("==", reader.value_of(indices[0]), reader.value_of(bags - 1), "bool")
        past = reader.guarded(
            is_last,
            lambda: reader.value_of(index.shape[0]),
            lambda: reader.read(offsets, (indices[0] + 1,)),
        )
        return [(first, reader.index_of(past, "end"))]

    def element(reader: Reader, indices: Indices, inner: Indices) -> Expression:
        row = reader.index_of(reader.read(index, inner))
        found = reader.read(weight, (row, indices[1]))
        return found if weights is None else infix("*", found, reader.read(as_tensor(weights), inner), "float")

    total = Reduction(c.shape, "float", "sum", "sum", ranges, element)
    if mode == 0:
        return [total, None, None, None]

    def count(reader: Reader, indices: Indices) -> Expression:
        first, past = ranges(reader, indices)[0]
        length = reader.value_of(past - first)
        is_empty = infix("<", length, constant(1, "int"), "bool")
        return choice(is_empty, constant(1, "int"), length)

    lengths = Formula((bags, ONE), "int", "count", count, Cost.FREE)
    average = pointwise(c.name, c.shape, "float", [total, lengths], lambda a, b: infix("/", a, b, "float"))
    return [average, None, None, None]


@lowers("bucketize.Tensor", "searchsorted.Tensor")
def _bucketize(c: Call) -> Tensor:
    is_bucketize = c.operation.startswith("bucketize")
    values = c.tensor("self" if c["self"] is not None else "input")
    edges = c.tensor("boundaries" if is_bucketize else "sorted_sequence")
    if c["sorter"] is not None:
        raise c.unsupported("with a sorter has no lowering")
    sign = "<=" if c["right"] or c["side"] == "right" else "<"

    # As many edges as lie below: what a search among sorted edges finds.
    def element(reader: Reader, indices: Indices, inner: Indices) -> Expression:
        at = inner if len(edges.shape) == 1 else (*indices[:-1], inner[0])
        return infix(sign, reader.read(edges, at), reader.read(values, indices), "int")

    extent = edges.shape[-1]
    return Reduction(c.shape, "int", "position", "sum", lambda reader, indices: [(ZERO, extent)], element)


@lowers("one_hot.default")
def _one_hot(c: Call) -> Tensor:
    index = c.tensor("self")

    def element(reader: Reader, indices: Indices) -> Expression:
        here = infix("==", reader.read(index, indices[:-1]), reader.value_of(indices[-1]), "bool")
        return choice(here, constant(1, "int"), constant(0, "int"))

    return Formula(c.shape, "int", c.name, element, Cost.FREE)


@lowers("repeat_interleave.self_int")
def _repeat_interleave(c: Call) -> Tensor:
    from kevolve.languages.cpp.lowering.indices import quotient

    base = c.tensor("self")
    repeats = sympy.sympify(c["repeats"])
    if c["dim"] is None:
        raise c.unsupported("without a dimension has no lowering")
    dim = c["dim"] % len(base.shape)
    return _picked(c, base, lambda reader, at: (*at[:dim], quotient(at[dim], repeats), *at[dim + 1 :]))
