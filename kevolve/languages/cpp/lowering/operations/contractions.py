"""Products summed over shared dimensions: matrix products in all their names, einsum, distances."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kevolve.languages.cpp.lowering.expressions import Expression, Kind, call, choice, constant, infix
from kevolve.languages.cpp.lowering.indices import ONE, ZERO, Index
from kevolve.languages.cpp.lowering.operations.calls import Call, as_tensor, lowers
from kevolve.languages.cpp.lowering.operations.pointwise import larger
from kevolve.languages.cpp.lowering.operations.reductions import folded, softmax
from kevolve.languages.cpp.lowering.operations.views import permuted, reshaped
from kevolve.languages.cpp.lowering.tensors import (
    Cost,
    Formula,
    Indices,
    Reader,
    Reduction,
    Tensor,
    broadcast,
    pointwise,
)


def matrix_product(name: str, left: Tensor, right: Tensor, shape: Indices) -> Tensor:
    """left [..., m, k] times right [..., k, n]; leading dimensions broadcast to those of shape."""
    extent = left.shape[-1] if left.shape[-1] != ONE else right.shape[-2]

    def element(reader: Reader, indices: Indices, inner: Indices) -> Expression:
        *batch, row, column = indices
        one, other = (*batch, row, inner[0]), (*batch, inner[0], column)
        return infix(
            "*",
            reader.read(left, broadcast(one, left.shape)),
            reader.read(right, broadcast(other, right.shape)),
            "float",
        )

    kind: Kind = "float" if "float" in (left.kind, right.kind) else "int"
    return Reduction(shape, kind, name, "sum", lambda reader, indices: [(ZERO, extent)], element)


@lowers(*"matmul.default mm.default bmm.default mv.default dot.default linalg_matmul.default".split())
def _matmul(c: Call) -> Tensor:
    names = [name for name in ("self", "input", "other", "mat2", "vec", "vec2", "tensor") if c[name] is not None]
    left, right = (c.tensor(name) for name in names[:2])
    shape = list(c.shape)
    if len(right.shape) == 1:
        right = reshaped(right.name, right, (*right.shape, ONE))
        shape.append(ONE)
    if len(left.shape) == 1:
        left = reshaped(left.name, left, (ONE, *left.shape))
        shape.insert(len(shape) - 1, ONE)
    return reshaped(c.name, matrix_product("sum", left, right, tuple(shape)), c.shape)


def _sum_of(c: Call, result: Tensor, added: Tensor | None, beta: float = 1, alpha: float = 1) -> Tensor:
    if alpha != 1:
        factor = constant(alpha, "float")
        result = pointwise(c.name, c.shape, "float", [result], lambda a: infix("*", a, factor, "float"))
    if added is None or beta == 0:
        return result

    def plus(a: Expression, b: Expression) -> Expression:
        return infix("+", a, b if beta == 1 else infix("*", constant(beta, "float"), b, "float"), "float")

    return pointwise(c.name, c.shape, "float", [result, added], plus)


@lowers("addmm.default", "baddbmm.default", "addmv.default")
def _addmm(c: Call) -> Tensor:
    names = next(pair for pair in (("mat1", "mat2"), ("batch1", "batch2"), ("mat", "vec")) if c[pair[0]] is not None)
    left, right = (c.tensor(name) for name in names)
    shape = c.shape
    if len(right.shape) == 1:
        right, shape = reshaped(right.name, right, (*right.shape, ONE)), (*shape, ONE)
    result = reshaped(c.name, matrix_product("sum", left, right, shape), c.shape)
    return _sum_of(c, result, c.tensor("self"), c["beta"], c["alpha"])


@lowers("linear.default")
def _linear(c: Call) -> Tensor:
    left, weight = c.tensor("input"), c.tensor("weight")
    if len(weight.shape) == 1:
        raise c.unsupported("with a vector as weight has no lowering")
    shape = c.shape
    if len(left.shape) == 1:
        left, shape = reshaped(left.name, left, (ONE, *left.shape)), (ONE, *shape)
    result = matrix_product("sum", left, permuted(weight.name, weight, [1, 0]), shape)
    return _sum_of(c, reshaped(c.name, result, c.shape), c.tensor("bias") if c["bias"] is not None else None)


@lowers("einsum.default")
def _einsum(c: Call) -> Tensor:
    operands = [as_tensor(operand) for operand in c["tensors"]]
    equation = c["equation"].replace(" ", "")
    left, arrow, right = equation.partition("->")
    inputs = left.split(",")
    if "..." in equation:  # capital letters from the end of the alphabet, aligned on the right
        ranks = [len(t.shape) - len(part.replace("...", "")) for part, t in zip(inputs, operands, strict=True)]
        hidden = "STUVWXYZ"[-max(ranks) :] if max(ranks) else ""
        inputs = [part.replace("...", hidden[len(hidden) - rank :]) for part, rank in zip(inputs, ranks, strict=True)]
        right = right.replace("...", hidden)
    letters = [letter for part in inputs for letter in part]
    if not arrow:
        right = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    extents: dict[str, Index] = {}
    for part, operand in zip(inputs, operands, strict=True):
        for letter, extent in zip(part, operand.shape, strict=True):
            extents[letter] = extent if extents.get(letter, ONE) == ONE else extents[letter]
    summed = [letter for letter in dict.fromkeys(letters) if letter not in right]

    def factors(reader: Reader, indices: Indices, inner: Indices) -> Expression:
        at = dict(zip((*right, *summed), (*indices, *inner), strict=True))
        found = None
        for part, operand in zip(inputs, operands, strict=True):
            factor = reader.read(operand, broadcast(tuple(at[letter] for letter in part), operand.shape))
            found = factor if found is None else infix("*", found, factor, c.kind)
        assert found is not None
        return found

    return contraction(c, "sum", [extents[letter] for letter in summed], factors)


def contraction(
    c: Call, name: str, extents: Sequence[object], element: Callable[[Reader, Indices, Indices], Expression]
) -> Tensor:
    """The sum of `element` over inner dimensions; without any, its one term."""
    return Reduction(c.shape, c.kind, name, "sum", lambda reader, indices: [(ZERO, n) for n in extents], element)


@lowers("cdist.default", "_cdist_forward.default", "_euclidean_dist.default")
def _cdist(c: Call) -> Tensor:
    left, right = c.tensor("x1"), c.tensor("x2")
    order = 2 if c["p"] is None else c["p"]
    if order not in (1, 2):
        raise c.unsupported(f"of order {order} has no lowering")

    def element(reader: Reader, indices: Indices, inner: Indices) -> Expression:
        *batch, row, column = indices
        one = reader.read(left, broadcast((*batch, row, inner[0]), left.shape))
        other = reader.read(right, broadcast((*batch, column, inner[0]), right.shape))
        apart = infix("-", one, other, "float")
        return infix("*", apart, apart, "float") if order == 2 else call("fabsf", apart)

    total = contraction(c, "squares" if order == 2 else "distance", [left.shape[-1]], element)
    if order == 1:
        return total
    return pointwise(c.name, c.shape, "float", [total], lambda a: call("sqrtf", a), costly=True)


@lowers("cosine_similarity.default")
def _cosine_similarity(c: Call) -> Tensor:
    one, other = c.tensor("x1"), c.tensor("x2")
    shape = tuple(map(_wider, *(_aligned(t.shape, max(len(one.shape), len(other.shape))) for t in (one, other))))
    dim = c["dim"] % len(shape)

    def total(left: Tensor, right: Tensor, name: str) -> Tensor:
        both = pointwise("product", shape, "float", [left, right], lambda a, b: infix("*", a, b, "float"))
        return folded(both, [dim], "sum", "float", name)

    eps = constant(c["eps"], "float")

    def norm(base: Tensor) -> Tensor:
        squares = total(base, base, "squares")
        length = pointwise("norm", squares.shape, "float", [squares], lambda a: call("sqrtf", a), costly=True)
        return pointwise("length", squares.shape, "float", [length], lambda a: larger(a, eps))

    def combine(dot: Expression, left: Expression, right: Expression) -> Expression:
        return infix("/", dot, infix("*", left, right, "float"), "float")

    parts = [total(one, other, "dot"), norm(one), norm(other)]
    return reshaped(c.name, pointwise(c.name, parts[0].shape, "float", parts, combine), c.shape)


def _aligned(shape: Indices, rank: int) -> Indices:
    return (ONE,) * (rank - len(shape)) + shape


def _wider(one: Index, other: Index) -> Index:
    return other if one == ONE else one


@lowers("scaled_dot_product_attention.default")
def _attention(c: Call) -> Tensor:
    query, key, value = (c.tensor(name) for name in ("query", "key", "value"))
    if c["dropout_p"] or c["enable_gqa"]:
        raise c.unsupported("with dropout or grouped heads has no lowering")
    batch = c.shape[:-2]
    shape = (*batch, query.shape[-2], key.shape[-2])
    rank = len(key.shape)
    turned = permuted("key", key, [*range(rank - 2), rank - 1, rank - 2])
    scores: Tensor = matrix_product("dot", query, turned, shape)
    if c["scale"] is None:
        root = pointwise("root", (), "float", [as_tensor(query.shape[-1])], lambda a: call("sqrtf", a), costly=True)
        scores = pointwise("score", shape, "float", [scores, root], lambda a, b: infix("/", a, b, "float"))
    else:
        factor = as_tensor(float(c["scale"]))
        scores = pointwise("score", shape, "float", [scores, factor], lambda a, b: infix("*", a, b, "float"))
    lowest = constant(float("-inf"), "float")
    if c["is_causal"]:
        base = scores

        def causal(reader: Reader, indices: Indices) -> Expression:
            inside = infix("<=", reader.value_of(indices[-1]), reader.value_of(indices[-2]), "bool")
            return choice(inside, reader.read(base, indices), lowest)

        scores = Formula(shape, "float", "score", causal, Cost.FOLD)
    if c["attn_mask"] is not None:
        mask = c.tensor("attn_mask")

        def masked(score: Expression, given: Expression) -> Expression:
            return choice(given, score, lowest) if mask.kind == "bool" else infix("+", score, given, "float")

        scores = pointwise("score", shape, "float", [scores, mask], masked)
    return matrix_product("sum", softmax(scores, len(shape) - 1, "weight"), value, c.shape)
