"""Integer algebra of sizes and indices: sympy expressions, simplified by what loops know, written as C.

Every size is at least 1 and every index is at least 0, so that C's division is the mathematical one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, PythonMod

Index = Any  # a sympy expression over sizes, loop variables and loaded indices
ONE, ZERO = sympy.Integer(1), sympy.Integer(0)


class Counter(sympy.Dummy):
    """The variable of one loop: two loops with variables of one name have different counters."""

    extent: Index  # 0 <= counter < extent, or None where the loop's range is data


def counter(name: str, extent: Index) -> Counter:
    """A loop variable that runs from 0 up to `extent`."""
    variable = Counter(name, integer=True, nonnegative=True)
    variable.extent = extent
    return variable


def size(name: str) -> Index:
    """A size by the name of the scalar argument that carries it."""
    return sympy.Symbol(name, integer=True, positive=True)


def product(sizes: Sequence[Index]) -> Index:
    """How many elements a tensor of these sizes has."""
    return sympy.expand(sympy.prod(sizes, start=ONE))


def flattened(indices: Sequence[Index], shape: Sequence[Index]) -> Index:
    """The position in row-major order."""
    flat = ZERO
    for index, extent in zip(indices, shape, strict=True):
        flat = flat * extent + index
    return sympy.expand(flat)


def unflattened(flat: Index, shape: Sequence[Index]) -> list[Index]:
    """The indices of a position in row-major order: inverse of `flattened`."""
    found: list[Index] = []
    for extent in reversed(shape[1:]):
        found.append(remainder(flat, extent))
        flat = quotient(flat, extent)
    return [flat, *reversed(found)] if shape else []


def quotient(index: Index, divisor: Index) -> Index:
    """index / divisor, rounded down."""
    whole, rest = _split(index, divisor)
    if rest == 0 or _is_below(rest, divisor):
        return whole
    return whole + FloorDiv(rest, divisor)


def remainder(index: Index, divisor: Index) -> Index:
    """What `quotient` leaves."""
    rest = _split(index, divisor)[1]
    return rest if rest == 0 or _is_below(rest, divisor) else Mod(rest, divisor)


def _split(index: Index, divisor: Index) -> tuple[Index, Index]:
    """(whole, rest) with index = whole * divisor + rest, as far as the terms show it."""
    whole, rest = ZERO, ZERO
    for term in sympy.Add.make_args(sympy.expand(index)):
        ratio = sympy.cancel(term / divisor)
        if ratio.is_polynomial() and ratio.is_integer:
            whole += ratio
        else:
            rest += term
    return whole, rest


def _is_below(index: Index, limit: Index) -> bool:
    """True if the loops' ranges prove index < limit."""
    if index.is_Integer and limit.is_Integer:
        return bool(index < limit)
    counters = sorted((s for s in index.free_symbols if isinstance(s, Counter)), key=lambda s: s.dummy_index)
    reach = index
    for variable in counters:
        if variable.extent is None or index.coeff(variable).is_nonnegative is not True:
            return False
        reach = reach.subs(variable, variable.extent - 1)
    return bool(counters) and sympy.expand(limit - reach).is_positive is True


def is_shared(indices: Sequence[Index]) -> bool:
    """True if several iterations ask for one element: a quotient of a counter without its remainder, or the reverse."""
    parts: dict[type, set[Any]] = {
        kind: {part.args for index in indices for part in index.atoms(kind)} for kind in (FloorDiv, Mod)
    }
    return parts[FloorDiv] != parts[Mod]


def written(index: Index, precedence: int = 0) -> str:
    """The index as a C expression, in brackets if it binds less than `precedence` (1: sums, 2: products)."""
    if index.is_Integer or index.is_Symbol:
        return str(index.name if index.is_Symbol else int(index))
    if isinstance(index, (Max, Min, sympy.Max, sympy.Min)):
        return _extreme(index)
    text, own = _compound(index)
    return f"({text})" if own < precedence else text


def _compound(index: Index) -> tuple[str, int]:
    if index.is_Add:
        terms = sorted(index.args, key=lambda term: (term.could_extract_minus_sign(), term.is_Integer, _order(term)))
        text = written(terms[0], 1)
        for term in terms[1:]:
            is_negative = term.could_extract_minus_sign()
            text += f" {'-' if is_negative else '+'} {written(-term if is_negative else term, 2)}"
        return text, 1
    if index.is_Mul and sympy.denom(index) != 1:  # without remainder, or it would be a FloorDiv
        above, below = sympy.fraction(index)
        return f"{written(above, 2)} / {written(below, 3)}", 2
    if index.is_Mul:
        factors = sorted(index.args, key=lambda factor: (not isinstance(factor, Counter), _order(factor)))
        return " * ".join(written(factor, 2) for factor in factors), 2
    if index.is_Pow and index.exp.is_Integer and index.exp > 0:
        return " * ".join([written(index.base, 3)] * int(index.exp)), 2
    if isinstance(index, (FloorDiv, Mod, PythonMod)):
        sign = "/" if isinstance(index, FloorDiv) else "%"
        return f"{written(index.args[0], 2)} {sign} {written(index.args[1], 3)}", 2
    raise ValueError(f"no C for the index {index}")


def _extreme(index: Index) -> str:
    sign = ">" if isinstance(index, (Max, sympy.Max)) else "<"
    text = written(index.args[0], 1)
    for argument in index.args[1:]:
        other = written(argument, 1)
        text = f"({text} {sign} {other} ? {text} : {other})"
    return text


def _order(index: Index) -> tuple[int, str]:
    """Earlier loops first, then sizes by name."""
    counters = [s.dummy_index for s in index.free_symbols if isinstance(s, Counter)]
    return (-len(counters), str(index))


def _rejoined(indices: Sequence[Index], shape: Sequence[Index]) -> list[tuple[Index, Index]]:
    """Indices with their extents; neighbours a / n and a % n of a dimension of n are one again, a."""
    found: list[tuple[Index, Index]] = []
    for index, extent in zip(indices, shape, strict=True):
        if extent == ONE:
            continue
        if found and isinstance(index, Mod) and index.args[1] == extent:
            whole, rows = found[-1]
            if whole == quotient(index.args[0], extent):
                found[-1] = (index.args[0], rows * extent)
                continue
        found.append((index, extent))
    return found


def position(indices: Sequence[Index], shape: Sequence[Index]) -> str:
    """The position of an element in row-major order as C text, in Horner's form: `(i * rows + j) * dim + k`."""
    text, is_sum = "", False
    for index, extent in _rejoined(indices, shape):
        if text:
            text = f"({text}) * {written(extent, 3)}" if is_sum else f"{text} * {written(extent, 3)}"
            is_sum = False
        if index != 0:
            term = written(index, 1)
            is_sum = bool(text) or index.is_Add
            text = f"{text} + {term}" if text else written(index, 0)
    return text or "0"
