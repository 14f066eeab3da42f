"""The definitions that this process has been given: what makes a user's own operator known by its name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kevolve.operators.custom.definition import Definition

if TYPE_CHECKING:
    from kevolve.operators.custom.operator import CustomOperator

_given: dict[str, Definition] = {}
_loaded: dict[str, CustomOperator] = {}


def give(definitions: Iterable[Definition]) -> None:
    """Make operators known here, in place of earlier ones of the same names."""
    for definition in definitions:
        if _given.get(definition.name) != definition:
            _loaded.pop(definition.name, None)
        _given[definition.name] = definition


def forget(name: str) -> None:
    """Make an operator unknown here again."""
    _given.pop(name, None)
    _loaded.pop(name, None)


def given(names: Iterable[str] | None = None) -> tuple[Definition, ...]:
    """The definitions of the operators that are called `names` (or of all), for another process to be given."""
    wanted = _given if names is None else names
    return tuple(_given[name] for name in wanted if name in _given)


def load_given(name: str) -> CustomOperator | None:
    """The operator, set up once in a process; None if nothing of that name was given. UsageError if it is not fit."""
    if name not in _given:
        return None
    if name not in _loaded:
        from kevolve.operators.custom.operator import CustomOperator

        _loaded[name] = CustomOperator(_given[name])
    return _loaded[name]
