"""Parameters that a program declares: numbers in its text that may be others, and which.

    constexpr int TILE = 16;  // one of 4 8 16 32

Such a line at the left margin is a parameter: its name, its value, and the values it may take, in an order in which
neighbours are alike. A program with parameters is a grid of programs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Point = Mapping[str, int]

_DECLARATION = re.compile(r"^(constexpr int (\w+) = )(-?\d+)(;\s*// one of ((?:-?\d+ ?)+))$", re.MULTILINE)


@dataclass(frozen=True)
class Parameter:
    """One declaration. `value` is what the text has now; `domain` what it may have."""

    name: str
    value: int
    domain: tuple[int, ...]


def declared(source: str) -> tuple[Parameter, ...]:
    """The parameters of a program, in the order of its text."""
    return tuple(
        Parameter(found[2], int(found[3]), tuple(int(word) for word in found[5].split()))
        for found in _DECLARATION.finditer(source)
    )


def values_of(source: str) -> dict[str, int]:
    """The point that a program is."""
    return {parameter.name: parameter.value for parameter in declared(source)}


def with_values(source: str, point: Point) -> str:
    """The program with other values; parameters that `point` does not name keep theirs."""
    return _DECLARATION.sub(lambda found: f"{found[1]}{point.get(found[2], int(found[3]))}{found[4]}", source)


def points(source: str) -> Iterator[dict[str, int]]:
    """Every point of the program's grid."""
    parameters = declared(source)
    for values in itertools.product(*(parameter.domain for parameter in parameters)):
        yield {parameter.name: value for parameter, value in zip(parameters, values, strict=True)}
