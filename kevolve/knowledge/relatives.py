"""Related operators: those whose plain programs read alike.

Two operators are related when at least `ENOUGH` of the words of their plain programs (names of arguments and
variables, keywords, functions) are the same: that counts both what they are about and how their loops are built.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kevolve.operators.custom.given import given
from kevolve.paths import seeds_dir

ENOUGH = 0.75

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def likeness(operator: str, other: str) -> float:
    """The share of words that their plain programs have in common, of all words of both; 0 if there is no program."""
    one, two = _words(operator), _words(other)
    return len(one & two) / len(one | two) if one and two else 0.0


def are_related(operator: str, other: str) -> bool:
    """Is what helps one of them worth trying on the other?"""
    return operator == other or likeness(operator, other) >= ENOUGH


def _words(operator: str) -> frozenset[str]:
    for definition in given([operator]):
        return _words_of(definition.program or "", operator)
    return _words_of_seed(operator)


@lru_cache
def _words_of_seed(operator: str) -> frozenset[str]:
    try:
        return _words_of((seeds_dir() / operator / "plain.cpp").read_text(encoding="utf-8"), operator)
    except OSError:
        return frozenset()


def _words_of(text: str, operator: str) -> frozenset[str]:
    found = re.findall(r"[A-Za-z_]\w*", _COMMENT.sub(" ", text))
    return frozenset(found) - {operator}
