"""Operations that compute each element from the elements of the operands at the same place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kevolve.languages.cpp.lowering.expressions import (
    Expression,
    call,
    cast,
    choice,
    constant,
    infix,
    negative,
    opposite,
)
from kevolve.languages.cpp.lowering.operations.calls import Call, as_tensor, lowers
from kevolve.languages.cpp.lowering.tensors import Tensor, pointwise

E = Expression
ZERO, ONE, HALF = (constant(number, "float") for number in (0.0, 1.0, 0.5))


def _named(operands: str, combine: Callable[..., E], costly: bool = False) -> Callable[[Call], Tensor]:
    """A lowering that combines the named arguments; floating results are computed from floats."""

    def lower(c: Call) -> Tensor:
        tensors = [c.tensor(name) for name in operands.split()]
        return pointwise(c.name, c.shape, c.kind, tensors, combine, costly)

    return lower


def _register(table: dict[str, Callable[..., E]], operands: str, costly: bool = False) -> None:
    for names, combine in table.items():
        lowers(*names.split())(_named(operands, combine, costly))


def is_nan(a: E) -> E:
    """a is not a number: the only value that differs from itself."""
    return infix("!=", a, a, "bool")


def larger(a: E, b: E) -> E:
    """The larger one, NaN if either is NaN."""
    return _extreme(">", a, b)


def smaller(a: E, b: E) -> E:
    """The smaller one, NaN if either is NaN."""
    return _extreme("<", a, b)


def _extreme(sign: str, a: E, b: E) -> E:
    if b.number is not None or b.kind != "float":  # a comparison with NaN is false
        return choice(infix("<" if sign == ">" else ">", a, b, "bool"), b, a)
    if a.kind != "float":
        return choice(infix(sign, a, b, "bool"), a, b)
    return choice(infix("||", infix(sign, a, b, "bool"), is_nan(a), "bool"), a, b)


def sigmoid(a: E) -> E:
    """1 / (1 + e^-a)."""
    return infix("/", ONE, infix("+", ONE, call("expf", negative(a)), "float"), "float")


def divided(a: E, b: E) -> E:
    """a / b as floats."""
    if a.kind != "float" and b.kind != "float":
        a = cast(a, "float")
    return infix("/", a, b, "float")


def _function(name: str) -> Callable[[E], E]:
    return lambda a: call(name, a)


_register(
    {
        "exp.default": _function("expf"),
        "exp2.default special_exp2.default": _function("exp2f"),
        "expm1.default": _function("expm1f"),
        "log.default": _function("logf"),
        "log2.default": _function("log2f"),
        "log10.default": _function("log10f"),
        "log1p.default": _function("log1pf"),
        "tanh.default": _function("tanhf"),
        "sin.default": _function("sinf"),
        "cos.default": _function("cosf"),
        "tan.default": _function("tanf"),
        "atan.default": _function("atanf"),
        "asin.default": _function("asinf"),
        "acos.default": _function("acosf"),
        "sinh.default": _function("sinhf"),
        "cosh.default": _function("coshf"),
        "erf.default special_erf.default": _function("erff"),
        "erfc.default special_erfc.default": _function("erfcf"),
        "sqrt.default": _function("sqrtf"),
        "rsqrt.default": lambda a: infix("/", ONE, call("sqrtf", a), "float"),
        "sigmoid.default special_expit.default": sigmoid,
        "silu.default": lambda a: infix("/", a, infix("+", ONE, call("expf", negative(a)), "float"), "float"),
        "log_sigmoid.default": lambda a: infix(
            "-",
            choice(infix("<", a, ZERO, "bool"), a, ZERO),
            call("log1pf", call("expf", negative(call("fabsf", a)))),
            "float",
        ),
    },
    "self",
    costly=True,
)


def _absolute(a: E) -> E:
    return call("fabsf", a) if a.kind == "float" else choice(infix("<", a, constant(0, "int"), "bool"), negative(a), a)


def _truth(a: E) -> E:
    return a if a.kind == "bool" else infix("!=", a, constant(0, a.kind), "bool")


def _sign(a: E) -> E:
    zero = constant(0, a.kind)
    one, minus = constant(1, a.kind), constant(-1, a.kind)
    return choice(infix(">", a, zero, "bool"), one, choice(infix("<", a, zero, "bool"), minus, a))


def _rounded(name: str) -> Callable[[E], E]:
    return lambda a: call(name, a) if a.kind == "float" else a


_register(
    {
        "neg.default": lambda a: negative(cast(a, "int") if a.kind == "bool" else a),
        "abs.default": _absolute,
        "relu.default": lambda a: choice(infix("<", a, constant(0, a.kind), "bool"), constant(0, a.kind), a),
        "relu6.default": lambda a: smaller(larger(a, ZERO), constant(6.0, "float")),
        "square.default": lambda a: infix("*", a, a, a.kind),
        "reciprocal.default": lambda a: divided(ONE, a),
        "sign.default sgn.default": _sign,
        "floor.default": _rounded("floorf"),
        "ceil.default": _rounded("ceilf"),
        "trunc.default fix.default": _rounded("truncf"),
        "round.default": _rounded("nearbyintf"),
        "frac.default": lambda a: infix("-", a, call("truncf", a), "float"),
        "logical_not.default": lambda a: opposite(_truth(a)),
        "bitwise_not.default": lambda a: (
            opposite(a) if a.kind == "bool" else infix("-", negative(a), constant(1, "int"), "int")
        ),
        "isnan.default": is_nan,
        "isinf.default": lambda a: infix("==", call("fabsf", a), constant(math.inf, "float"), "bool"),
        "isfinite.default": lambda a: infix("<", call("fabsf", a), constant(math.inf, "float"), "bool"),
    },
    "self",
)


def _floor_divided(a: E, b: E) -> E:
    if "float" in (a.kind, b.kind):
        return call("floorf", infix("/", a, b, "float"))
    if b.number is not None and b.number > 0 and a.index is not None:
        return infix("/", a, b, "int")
    apart = infix("!=", infix("%", a, b, "int"), constant(0, "int"), "bool")
    below = infix("!=", infix("<", a, constant(0, "int"), "bool"), infix("<", b, constant(0, "int"), "bool"), "bool")
    return infix("-", infix("/", a, b, "int"), cast(infix("&&", apart, below, "bool"), "int"), "int")


def _remainder(a: E, b: E) -> E:
    if "float" not in (a.kind, b.kind):
        return infix("-", a, infix("*", _floor_divided(a, b), b, "int"), "int")
    rest = call("fmodf", a, b)
    zero = constant(0, "float")
    apart = infix("!=", infix("<", rest, zero, "bool"), infix("<", b, zero, "bool"), "bool")
    return choice(infix("&&", infix("!=", rest, zero, "bool"), apart, "bool"), infix("+", rest, b, "float"), rest)


@lowers("div.Tensor_mode", "div.Scalar_mode")
def _divided_in_a_mode(c: Call) -> Tensor:
    def combine(a: E, b: E) -> E:
        if c["rounding_mode"] == "floor":
            return _floor_divided(a, b)
        if c["rounding_mode"] == "trunc":
            return call("truncf", infix("/", a, b, "float")) if "float" in (a.kind, b.kind) else infix("/", a, b, "int")
        return divided(a, b)

    return pointwise(c.name, c.shape, c.kind, [c.tensor("self"), c.tensor("other")], combine)


def _arithmetic(sign: str) -> Callable[[Call], Tensor]:
    def lower(c: Call) -> Tensor:
        alpha = c["alpha"] if c["alpha"] is not None else 1
        names = ("other", "self") if c.operation.startswith("rsub") else ("self", "other")

        def combine(a: E, b: E) -> E:
            if sign == "*" and c.kind == "bool":
                return infix("&&", a, b, "bool")
            if sign == "+" and c.kind == "bool":
                return infix("||", a, b, "bool")
            if alpha != 1:
                kind = c.kind
                b = infix("*", constant(alpha, kind), b, kind)
            return infix(sign, a, b, c.kind)

        return pointwise(c.name, c.shape, c.kind, [c.tensor(name) for name in names], combine)

    return lower


lowers("add.Tensor", "add.Scalar")(_arithmetic("+"))
lowers("sub.Tensor", "sub.Scalar", "rsub.Tensor", "rsub.Scalar", "subtract.Tensor")(_arithmetic("-"))
lowers("mul.Tensor", "mul.Scalar", "multiply.Tensor")(_arithmetic("*"))


def powered(a: E, b: E) -> E:
    """a to the b; small whole powers as products."""
    exponent = b.number
    if exponent == 2:
        return infix("*", a, a, a.kind)
    if exponent == 3:
        return infix("*", infix("*", a, a, a.kind), a, a.kind)
    if exponent == 1:
        return a
    if exponent == 0.5:
        return call("sqrtf", a)
    if exponent == -0.5:
        return infix("/", ONE, call("sqrtf", a), "float")
    if exponent == -1:
        return divided(ONE, a)
    power = call("powf", a, b)
    return power if "float" in (a.kind, b.kind) else cast(call("pow", a, b), "int")


def _compared(sign: str) -> Callable[[E, E], E]:
    return lambda a, b: infix(sign, a, b, "bool")


def _logical(sign: str) -> Callable[[E, E], E]:
    return lambda a, b: infix(sign, _truth(a), _truth(b), "bool")


def _bitwise(sign: str, logical: str) -> Callable[[E, E], E]:
    def combine(a: E, b: E) -> E:
        return infix(logical, a, b, "bool") if a.kind == b.kind == "bool" else infix(sign, a, b, "int")

    return combine


_BINARY: dict[str, Callable[..., E]] = {
    "div.Tensor div.Scalar true_divide.Tensor divide.Tensor": divided,
    "floor_divide.default floor_divide.Scalar": _floor_divided,
    "remainder.Tensor remainder.Scalar": _remainder,
    "fmod.Tensor fmod.Scalar": lambda a, b: (
        call("fmodf", a, b) if "float" in (a.kind, b.kind) else infix("%", a, b, "int")
    ),
    "maximum.default": larger,
    "minimum.default": smaller,
    "fmax.default": lambda a, b: call("fmaxf", a, b),
    "fmin.default": lambda a, b: call("fminf", a, b),
    "eq.Tensor eq.Scalar": _compared("=="),
    "ne.Tensor ne.Scalar not_equal.Tensor": _compared("!="),
    "lt.Tensor lt.Scalar less.Tensor": _compared("<"),
    "le.Tensor le.Scalar less_equal.Tensor": _compared("<="),
    "gt.Tensor gt.Scalar greater.Tensor": _compared(">"),
    "ge.Tensor ge.Scalar greater_equal.Tensor": _compared(">="),
    "logical_and.default": _logical("&&"),
    "logical_or.default": _logical("||"),
    "logical_xor.default": _logical("!="),
    "bitwise_and.Tensor bitwise_and.Scalar __and__.Tensor": _bitwise("&", "&&"),
    "bitwise_or.Tensor bitwise_or.Scalar __or__.Tensor": _bitwise("|", "||"),
    "bitwise_xor.Tensor bitwise_xor.Scalar": _bitwise("^", "!="),
}
_register(_BINARY, "self other")
_register(
    {"atan2.default": lambda a, b: call("atan2f", a, b), "hypot.default": lambda a, b: call("hypotf", a, b)},
    "self other",
    costly=True,
)


@lowers("pow.Tensor_Scalar", "pow.Tensor_Tensor")
def _pow(c: Call) -> Tensor:
    exponent = c["exponent"]
    costly = exponent not in (0, 1, 2, 3)
    return pointwise(c.name, c.shape, c.kind, [c.tensor("self"), as_tensor(exponent)], powered, costly)


lowers("pow.Scalar")(_named("self exponent", powered, costly=True))


def _lerp(a: E, b: E, weight: E) -> E:
    return infix("+", a, infix("*", weight, infix("-", b, a, "float"), "float"), "float")


_register({"lerp.Tensor lerp.Scalar": _lerp}, "self end weight")
_register({"where.self where.ScalarOther where.ScalarSelf where.Scalar": choice}, "condition self other")
_register({"masked_fill.Scalar masked_fill.Tensor": lambda a, mask, b: choice(mask, b, a)}, "self mask value")


@lowers(
    "clamp.default",
    "clamp.Tensor",
    "clamp_min.default",
    "clamp_min.Tensor",
    "clamp_max.default",
    "clamp_max.Tensor",
    "clip.default",
    "hardtanh.default",
)
def _clamp(c: Call) -> Tensor:
    low = c["min"] if c["min"] is not None else c["min_val"]
    high = c["max"] if c["max"] is not None else c["max_val"]
    limits = [as_tensor(limit) for limit in (low, high) if limit is not None]

    def combine(a: E, *bounds: E) -> E:
        wanted = [bound if bound.number is None else constant(bound.number, c.kind) for bound in bounds]
        if low is not None:
            a = larger(a, wanted.pop(0))
        return smaller(a, wanted.pop(0)) if high is not None else a

    return pointwise(c.name, c.shape, c.kind, [c.tensor("self"), *limits], combine)


@lowers("addcmul.default", "addcdiv.default")
def _addc(c: Call) -> Tensor:
    sign = "*" if c.operation.startswith("addcmul") else "/"
    value = constant(c["value"], "float")

    def combine(a: E, b: E, d: E) -> E:
        term = infix(sign, b if c["value"] == 1 else infix("*", value, b, "float"), d, "float")
        return infix("+", a, term, "float")

    return pointwise(c.name, c.shape, c.kind, [c.tensor(n) for n in ("self", "tensor1", "tensor2")], combine)


def converted(c: Call, source: Any = None) -> Tensor:
    """The tensor as another kind; between floats nothing changes: arithmetic is in float32 throughout."""
    operand = source if source is not None else c.tensor("self")
    if operand.kind == c.kind:
        return operand

    def combine(a: E) -> E:
        return _truth(a) if c.kind == "bool" else cast(a, c.kind)

    return pointwise(c.name, c.shape, c.kind, [operand], combine)


lowers(
    *"_to_copy.default to.dtype to.device to.other to.dtype_layout type_as.default clone.default".split(),
    *"contiguous.default detach.default alias.default lift_fresh_copy.default lift_fresh.default lift.default".split(),
    *"positive.default float.default".split(),
)(converted)
