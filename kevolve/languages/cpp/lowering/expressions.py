"""Scalar C expressions as a graph: what is shared is one object, so that it can be computed once."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kevolve.languages.cpp.lowering.indices import Counter, Index, position, written

Kind = Literal["float", "int", "bool"]
C_TYPES: dict[Kind, str] = {"float": "float", "int": "int64_t", "bool": "bool"}

TERNARY, OR, AND, EQUALITY, COMPARISON, SUM, PRODUCT, UNARY, ATOM = range(1, 10)
_INFIX = {
    "||": OR, "&&": AND, "|": OR, "&": AND, "^": OR, "==": EQUALITY, "!=": EQUALITY, "<": COMPARISON, "<=": COMPARISON,
    ">": COMPARISON, ">=": COMPARISON, "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT,
}  # fmt: skip


_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Expression:
    """A scalar of some kind. `text` writes it, given the texts of its operands in brackets where `needs` asks.

    `counters` are the loop variables that it depends on. `is_leaf` ones are never worth a name of their own.
    `is_guarded`: only one of its operands is evaluated, so nothing in them may be computed beforehand.
    """

    text: Callable[..., str]
    kind: Kind
    operands: tuple[Expression, ...] = ()
    needs: tuple[int, ...] = ()
    precedence: int = ATOM
    counters: frozenset[Counter] = frozenset()
    is_leaf: bool = False
    is_guarded: bool = False
    is_value: bool = False  # read from a VALUE: a bfloat16 in some variants
    is_opposite: bool = False  # !operand
    is_widening: bool = False  # a VALUE as a float: nothing to do once it is in a variable
    index: Index = None  # for integers that are index expressions
    number: float | int | None = None


def _joined(operands: Sequence[Expression]) -> frozenset[Counter]:
    return frozenset().union(*(operand.counters for operand in operands))


def constant(number: float | int | bool, kind: Kind) -> Expression:
    """A number."""
    if kind == "bool":
        text = "true" if number else "false"
    elif kind == "int":
        text = str(int(number))
    else:
        text = _float_text(float(number))
    precedence = UNARY if text.startswith("-") else ATOM
    return Expression(lambda: text, kind, precedence=precedence, is_leaf=True, number=number)


def _float_text(number: float) -> str:
    if math.isnan(number):
        return "NAN"
    if math.isinf(number) or abs(number) > 3.4028235677973366e38:
        return "INFINITY" if number > 0 else "-INFINITY"
    return f"{number!r}f"


def of_index(index: Index, counters: frozenset[Counter]) -> Expression:
    """An index as a value."""
    precedence = ATOM if index.is_Symbol or index.is_Integer else PRODUCT if not index.is_Add else SUM
    text = written(index)
    return Expression(lambda: text, "int", precedence=precedence, counters=counters, is_leaf=True, index=index)


def local(name: str, kind: Kind, counters: frozenset[Counter] = frozenset()) -> Expression:
    """A variable of the program."""
    return Expression(lambda: name, kind, counters=counters, is_leaf=True)


def load(
    base: str, indices: Sequence[Index], shape: Sequence[Index], kind: Kind, counters: frozenset[Counter], value: bool
) -> Expression:
    """base[...]; `value` says that the memory holds VALUEs."""
    text = f"{base}[{position(indices, shape)}]"
    return Expression(lambda: text, kind, counters=counters, is_value=value)


def infix(sign: str, left: Expression, right: Expression, kind: Kind) -> Expression:
    """left sign right."""
    if left.number is not None and right.number is not None and sign in _COMPARED:
        return constant(_COMPARED[sign](left.number, right.number), "bool")
    if sign == "*" and 1 in (left.number, right.number):
        other = right if left.number == 1 else left
        if other.kind == kind:
            return other
    if sign == "+" and kind == left.kind == "int" and right.number == 0:
        return left
    own = _INFIX[sign]
    loose = own if sign in ("+", "*", "&&", "||") else own + 1
    needs = (own, loose if sign in ("&&", "||") else own + 1)
    if sign in ("&&", "||"):
        needs = (EQUALITY, EQUALITY)
    if own in (EQUALITY, COMPARISON):
        needs = (SUM, SUM)
    return Expression(lambda a, b: f"{a} {sign} {b}", kind, (left, right), needs, own, counters=_joined((left, right)))


def call(name: str, *operands: Expression, kind: Kind = "float") -> Expression:
    """name(operands)."""
    return Expression(
        lambda *texts: f"{name}({', '.join(texts)})", kind, operands, (0,) * len(operands), counters=_joined(operands)
    )


def cast(operand: Expression, kind: Kind) -> Expression:
    """The operand converted to another kind."""
    if operand.kind == kind and not operand.is_value:
        return operand
    if operand.number is not None:
        return constant(operand.number, kind)
    found = call(f"static_cast<{C_TYPES[kind]}>", operand, kind=kind)
    return replace(found, is_widening=True) if operand.kind == kind else found


def negative(operand: Expression) -> Expression:
    """-operand."""
    return Expression(lambda a: f"-{a}", operand.kind, (operand,), (ATOM,), UNARY, counters=operand.counters)


def opposite(operand: Expression) -> Expression:
    """!operand."""
    if operand.is_opposite:
        return operand.operands[0]
    return Expression(
        lambda a: f"!{a}", "bool", (operand,), (ATOM,), UNARY, counters=operand.counters, is_opposite=True
    )


def choice(condition: Expression, yes: Expression, no: Expression, guarded: bool = False) -> Expression:
    """condition ? yes : no. A VALUE is widened first: between bfloat16 and float C++ knows no common type."""
    if condition.is_opposite:
        return choice(condition.operands[0], no, yes, guarded)
    if yes.kind == no.kind == "bool" and yes.number is not None and no.number is not None and yes.number != no.number:
        return condition if yes.number else opposite(condition)
    kind: Kind = "float" if "float" in (yes.kind, no.kind) else "int" if "int" in (yes.kind, no.kind) else "bool"
    parts = (condition, *(cast(arm, kind) if arm.is_value else arm for arm in (yes, no)))
    return Expression(
        lambda c, a, b: f"{c} ? {a} : {b}",
        kind,
        parts,
        (OR, SUM, SUM),
        TERNARY,
        counters=_joined(parts),
        is_guarded=guarded,
    )
