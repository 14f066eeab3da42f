"""Operations that fold many elements into one, and what is made of such folds: means, norms, softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import sympy

from kevolve.languages.cpp.lowering.expressions import Expression, Kind, call, cast, choice, constant, infix, of_index
from kevolve.languages.cpp.lowering.indices import ONE, ZERO, Index, product
from kevolve.languages.cpp.lowering.operations.calls import Call, lowers
from kevolve.languages.cpp.lowering.operations.pointwise import divided
from kevolve.languages.cpp.lowering.operations.views import reshaped
from kevolve.languages.cpp.lowering.tensors import Fold, Indices, Reader, Reduction, Scan, Tensor, pointwise

E = Expression
RESULT: dict[Fold, str] = {
    "sum": "sum", "product": "product", "max": "largest", "min": "smallest", "plain_max": "largest",
    "any": "found", "all": "holds", "argmax": "position", "argmin": "position",
}  # fmt: skip


def folded(base: Tensor, dims: Sequence[int], fold: Fold, kind: Kind, name: str = "") -> Tensor:
    """The base folded over dimensions, which stay as dimensions of one element. Asked again, the same tensor."""
    return _folded(base, tuple(dims), fold, kind, name)


@lru_cache(maxsize=256)
def _folded(base: Tensor, dims: tuple[int, ...], fold: Fold, kind: Kind, name: str) -> Tensor:
    shape = tuple(ONE if d in dims else extent for d, extent in enumerate(base.shape))
    extents = [(ZERO, base.shape[d]) for d in dims]

    def element(reader: Reader, indices: Indices, inner: Indices) -> E:
        found = list(indices)
        for d, index in zip(dims, inner, strict=True):
            found[d] = index if base.shape[d] != ONE else ZERO
        return reader.read(base, tuple(found))

    return Reduction(shape, kind, name or RESULT[fold], fold, lambda reader, indices: extents, element)


def _unary(base: Tensor, name: str, combine: object, costly: bool = False) -> Tensor:
    return pointwise(name, base.shape, "float", [base], combine, costly)  # type: ignore[arg-type]


def _count(base: Tensor, dims: Sequence[int]) -> Index:
    return product([base.shape[d] for d in dims])


def _over(total: E, count: Index) -> E:
    """A float divided by a number of elements."""
    return infix("/", total, of_index(count, frozenset()), "float")


def mean(base: Tensor, dims: Sequence[int], name: str = "mean") -> Tensor:
    """The mean over dimensions, which stay."""
    return _mean_of(base, tuple(dims), name)


@lru_cache(maxsize=256)
def _mean_of(base: Tensor, dims: tuple[int, ...], name: str) -> Tensor:
    total = folded(base, dims, "sum", "float")
    return _unary(total, name, lambda a: _over(a, _count(base, dims)))


def variance(base: Tensor, dims: Sequence[int], correction: float, name: str = "variance") -> tuple[Tensor, Tensor]:
    """(variance, mean) over dimensions, which stay."""
    return _variance(base, tuple(dims), correction, name)


@lru_cache(maxsize=256)
def _variance(base: Tensor, dims: tuple[int, ...], correction: float, name: str) -> tuple[Tensor, Tensor]:
    middle = mean(base, dims)
    apart = pointwise("apart", base.shape, "float", [base, middle], lambda a, b: infix("-", a, b, "float"))
    squared = pointwise("square", base.shape, "float", [apart], lambda a: infix("*", a, a, "float"))
    total = folded(squared, dims, "sum", "float", "squares")
    count = _count(base, dims) - sympy.nsimplify(correction)
    # torch divides by at least 0: one element with correction 1 gives 0 / 0.
    return _unary(total, name, lambda a: _over(a, count)), middle


def _finished(c: Call, kept: Tensor) -> Tensor:
    return reshaped(c.name, kept, c.shape)


def _argument(c: Call, name: str = "self") -> tuple[Tensor, list[int]]:
    base = c.tensor(name)
    return base, c.dims("dim", len(base.shape))


@lowers("sum.default", "sum.dim_IntList")
def _sum(c: Call) -> Tensor:
    base, dims = _argument(c)
    return _finished(c, folded(base, dims, "sum", c.kind))


@lowers("mean.default", "mean.dim")
def _mean(c: Call) -> Tensor:
    return _finished(c, mean(*_argument(c)))


@lowers("prod.default", "prod.dim_int")
def _prod(c: Call) -> Tensor:
    base, dims = _argument(c)
    return _finished(c, folded(base, dims, "product", c.kind))


@lowers("amax.default", "max.default")
def _amax(c: Call) -> Tensor:
    base, dims = _argument(c)
    return _finished(c, folded(base, dims, "max", c.kind))


@lowers("amin.default", "min.default")
def _amin(c: Call) -> Tensor:
    base, dims = _argument(c)
    return _finished(c, folded(base, dims, "min", c.kind))


@lowers("max.dim", "min.dim")
def _extreme_and_position(c: Call) -> list[Tensor]:
    base, dims = _argument(c)
    is_max = c.operation.startswith("max")
    folds: tuple[Fold, Fold] = ("max", "argmax") if is_max else ("min", "argmin")
    value = folded(base, dims, folds[0], c.kind)
    return [_finished(c, value), reshaped(c.name, folded(base, dims, folds[1], "int"), c.shapes[1])]


@lowers("argmax.default", "argmin.default")
def _position(c: Call) -> Tensor:
    base = c.tensor("self")
    if c["dim"] is None:
        base = reshaped(base.name, base, (product(base.shape),))
    dims = [(c["dim"] or 0) % max(len(base.shape), 1)]
    return _finished(c, folded(base, dims, "argmax" if c.operation.startswith("argmax") else "argmin", "int"))


@lowers("any.default", "any.dim", "any.dims", "all.default", "all.dim", "all.dims")
def _any(c: Call) -> Tensor:
    base, dims = _argument(c)
    if base.kind != "bool":
        base = pointwise("truth", base.shape, "bool", [base], lambda a: infix("!=", a, constant(0, a.kind), "bool"))
    return _finished(c, folded(base, dims, "any" if c.operation.startswith("any") else "all", "bool"))


@lowers("count_nonzero.dim_IntList", "count_nonzero.default")
def _count_nonzero(c: Call) -> Tensor:
    base, dims = _argument(c)
    ones = pointwise(
        "ones", base.shape, "int", [base], lambda a: cast(infix("!=", a, constant(0, a.kind), "bool"), "int")
    )
    return _finished(c, folded(ones, dims, "sum", "int", "count"))


def _correction(c: Call) -> float:
    if c["unbiased"] is not None:
        return 1 if c["unbiased"] else 0
    return 1 if c["correction"] is None else float(c["correction"])


@lowers(*"var.default var.dim var.correction std.default std.dim std.correction".split())
def _var(c: Call) -> Tensor:
    base, dims = _argument(c)
    found = variance(base, dims, _correction(c))[0]
    if c.operation.startswith("std"):
        found = _unary(found, "deviation", lambda a: call("sqrtf", a), costly=True)
    return _finished(c, found)


@lowers("var_mean.default", "var_mean.dim", "var_mean.correction")
def _var_mean(c: Call) -> list[Tensor]:
    base, dims = _argument(c)
    return [reshaped(t.name, t, c.shape) for t in variance(base, dims, _correction(c))]


def _less(name: str, one: Tensor, other: Tensor) -> Tensor:
    return pointwise(name, one.shape, "float", [one, other], lambda a, b: infix("-", a, b, "float"))


def _exponentials(base: Tensor, dims: Sequence[int], most: Tensor) -> Tensor:
    """e^(base - most), most broadcast."""
    return _unary(_less("apart", base, most), "power", lambda a: call("expf", a), costly=True)


def softmax(base: Tensor, dim: int, name: str = "softmax") -> Tensor:
    """e^base over its sum along a dimension. The maximum may skip NaN: the sum will not."""
    powers = _exponentials(base, [dim], folded(base, [dim], "plain_max", "float"))
    total = folded(powers, [dim], "sum", "float")
    return pointwise(name, base.shape, "float", [powers, total], divided)


@lowers("softmax.int", "_softmax.default", "special_softmax.int", "_safe_softmax.default")
def _softmax(c: Call) -> Tensor:
    base = c.tensor("self")
    if not base.shape:
        return pointwise(c.name, (), "float", [base], lambda a: divided(a, a))
    return softmax(base, c["dim"] % len(base.shape), c.name)


@lowers("log_softmax.int", "_log_softmax.default", "special_log_softmax.int")
def _log_softmax(c: Call) -> Tensor:
    base = c.tensor("self")
    dims = [c["dim"] % len(base.shape)]
    most = folded(base, dims, "plain_max", "float")
    total = folded(_exponentials(base, dims, most), dims, "sum", "float")
    shift = pointwise(
        "shift", total.shape, "float", [total, most], lambda a, b: infix("+", call("logf", a), b, "float"), costly=True
    )
    return _less(c.name, base, shift)


@lowers("logsumexp.default", "special_logsumexp.default")
def _logsumexp(c: Call) -> Tensor:
    base, dims = _argument(c)

    def finite(a: E) -> E:
        is_infinite = infix("==", call("fabsf", a), constant(math.inf, "float"), "bool")
        return choice(is_infinite, constant(0.0, "float"), a)

    most = _unary(folded(base, dims, "plain_max", "float"), "shift", finite)
    total = folded(_exponentials(base, dims, most), dims, "sum", "float")
    found = pointwise(
        "logsumexp",
        total.shape,
        "float",
        [total, most],
        lambda a, b: infix("+", call("logf", a), b, "float"),
        costly=True,
    )
    return _finished(c, found)


def _normalised(c: Call, base: Tensor, middle: Tensor | None, scale: Tensor) -> Tensor:
    """(base - middle) * scale, times weight and plus bias where the call has them."""
    result = _less("apart", base, middle) if middle is not None else base
    result = pointwise(c.name, base.shape, "float", [result, scale], lambda a, b: infix("*", a, b, "float"))
    for name, sign in (("weight", "*"), ("bias", "+")):
        if c[name] is not None:
            operands = [result, c.tensor(name)]
            result = pointwise(c.name, base.shape, "float", operands, lambda a, b, s=sign: infix(s, a, b, "float"))
    return result


def _inverse_root(base: Tensor, eps: float) -> Tensor:
    def combine(a: E) -> E:
        return infix(
            "/", constant(1.0, "float"), call("sqrtf", infix("+", a, constant(eps, "float"), "float")), "float"
        )

    return _unary(base, "scale", combine, costly=True)


@lowers("layer_norm.default", "native_layer_norm.default")
def _layer_norm(c: Call) -> Tensor | list[Tensor]:
    base = c.tensor("input")
    dims = list(range(len(base.shape) - len(c["normalized_shape"]), len(base.shape)))
    spread, middle = variance(base, dims, 0)
    scale = _inverse_root(spread, c["eps"])
    result = _normalised(c, base, middle, scale)
    return [result, middle, scale] if c.operation.startswith("native") else result


@lowers("rms_norm.default")
def _rms_norm(c: Call) -> Tensor:
    base = c.tensor("input")
    dims = list(range(len(base.shape) - len(c["normalized_shape"]), len(base.shape)))
    squared = pointwise("square", base.shape, "float", [base], lambda a: infix("*", a, a, "float"))
    total = folded(squared, dims, "sum", "float", "squares")
    average = _unary(total, "mean", lambda a: _over(a, _count(base, dims)))
    eps = c["eps"] if c["eps"] is not None else 2.0**-23  # torch takes the epsilon of float32
    return _normalised(c, base, None, _inverse_root(average, eps))


@lowers(
    "linalg_vector_norm.default", "norm.ScalarOpt_dim", "norm.Scalar", "norm.ScalarOpt_dim_dtype", "frobenius_norm.dim"
)
def _norm(c: Call) -> Tensor:
    base, dims = _argument(c)
    order = c["ord"] if c["ord"] is not None else c["p"] if c["p"] is not None else 2
    if order == 2:
        squared = pointwise("square", base.shape, "float", [base], lambda a: infix("*", a, a, "float"))
        total = folded(squared, dims, "sum", "float", "squares")
        return _finished(c, _unary(total, "norm", lambda a: call("sqrtf", a), costly=True))
    size = _unary(base, "size", lambda a: call("fabsf", a))
    if order == 1:
        return _finished(c, folded(size, dims, "sum", "float", "norm"))
    if order in (math.inf, -math.inf):
        return _finished(c, folded(size, dims, "max" if order > 0 else "min", "float"))
    if order == 0:
        raise c.unsupported("of order 0 has no lowering; count with (x != 0).sum()")
    power = constant(order, "float")
    powers = _unary(size, "power", lambda a: call("powf", a, power), costly=True)
    inverse = constant(1.0 / order, "float")
    total = folded(powers, dims, "sum", "float")
    return _finished(c, _unary(total, "norm", lambda a: call("powf", a, inverse), costly=True))


@lowers("batch_norm.default", "_native_batch_norm_legit_no_training.default")
def _batch_norm(c: Call) -> Tensor | list[Tensor | None]:
    if c["training"]:
        raise c.unsupported("in training changes its running statistics; write the mean and variance out")
    base = c.tensor("input")
    shape = (ONE, base.shape[1], *(ONE for _ in base.shape[2:]))
    names = ("running_mean", "running_var", "weight", "bias")
    channels = {name: reshaped(name, c.tensor(name), shape) for name in names if c[name] is not None}
    scale = _inverse_root(channels["running_var"], c["eps"])
    result = _less("apart", base, channels["running_mean"])
    for name, sign in (("scale", "*"), ("weight", "*"), ("bias", "+")):
        factor = scale if name == "scale" else channels.get(name)
        if factor is not None:
            operands = [result, factor]
            result = pointwise(c.name, base.shape, "float", operands, lambda a, b, s=sign: infix(s, a, b, "float"))
    return [result, None, None] if c.operation.startswith("_native") else result


@lowers("cumsum.default", "cumprod.default")
def _scan(c: Call) -> Tensor:
    base = c.tensor("self")
    if not base.shape:
        return base
    fold: Fold = "sum" if c.operation.startswith("cumsum") else "product"
    return Scan(base.shape, c.kind, c.name, base, c["dim"] % len(base.shape), fold)
