"""Activation functions of neural networks."""

from __future__ import annotations

import math

from kevolve.languages.cpp.lowering.expressions import Expression, call, choice, constant, infix
from kevolve.languages.cpp.lowering.operations.calls import Call, lowers
from kevolve.languages.cpp.lowering.operations.pointwise import HALF, ONE, ZERO
from kevolve.languages.cpp.lowering.tensors import Tensor, pointwise

E = Expression


def _gelu(c: Call) -> Tensor:
    def exact(a: E) -> E:
        bell = call("erff", infix("*", a, constant(math.sqrt(0.5), "float"), "float"))
        return infix("*", infix("*", HALF, a, "float"), infix("+", ONE, bell, "float"), "float")

    def approximate(a: E) -> E:
        cube = infix("*", infix("*", infix("*", constant(0.044715, "float"), a, "float"), a, "float"), a, "float")
        inner = infix("*", constant(math.sqrt(2 / math.pi), "float"), infix("+", a, cube, "float"), "float")
        return infix("*", infix("*", HALF, a, "float"), infix("+", ONE, call("tanhf", inner), "float"), "float")

    combine = approximate if c["approximate"] == "tanh" else exact
    return pointwise(c.name, c.shape, c.kind, [c.tensor("self")], combine, costly=True)


lowers("gelu.default")(_gelu)


@lowers("leaky_relu.default")
def _leaky_relu(c: Call) -> Tensor:
    slope = constant(c["negative_slope"], "float")
    return pointwise(
        c.name,
        c.shape,
        c.kind,
        [c.tensor("self")],
        lambda a: choice(infix(">", a, ZERO, "bool"), a, infix("*", a, slope, "float")),
    )


@lowers("elu.default")
def _elu(c: Call) -> Tensor:
    alpha, scale, input_scale = (constant(c[name], "float") for name in ("alpha", "scale", "input_scale"))

    def combine(a: E) -> E:
        below = infix("*", alpha, call("expm1f", infix("*", a, input_scale, "float")), "float")
        return infix("*", scale, choice(infix(">", a, ZERO, "bool"), a, below), "float")

    return pointwise(c.name, c.shape, c.kind, [c.tensor("self")], combine, costly=True)


@lowers("softplus.default")
def _softplus(c: Call) -> Tensor:
    beta, threshold = c["beta"], constant(c["threshold"], "float")

    def combine(a: E) -> E:
        scaled = a if beta == 1 else infix("*", a, constant(beta, "float"), "float")
        soft = call("log1pf", call("expf", scaled))
        soft = soft if beta == 1 else infix("/", soft, constant(beta, "float"), "float")
        return choice(infix(">", scaled, threshold, "bool"), a, soft)

    return pointwise(c.name, c.shape, c.kind, [c.tensor("self")], combine, costly=True)
