"""Names of a program's variables: each once, so that edits can tell them apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

# What a variable may not be called: C++ keywords, types and macros in reach, functions of <cmath>.
_RESERVED = frozenset(
    """
    alignas alignof and asm auto bool break case catch char class const continue default delete do double else enum
    explicit export extern false float for friend goto if inline int long mutable namespace new not operator or
    private protected public register return short signed sizeof static struct switch template this throw true try
    typedef typename union unsigned using virtual void volatile while xor VALUE INDEX NAN INFINITY bfloat16
    exp log pow sqrt sin cos tan tanh erf abs floor ceil round trunc
    """.split()
)


class Names:
    """Hands out names that are not in use. `given` are the arguments' names."""

    def __init__(self, given: Sequence[str]):
        self.given = frozenset(given)
        self.used = set(given)

    def fresh(self, wanted: str) -> str:
        """`wanted`, or the first of `wanted_2`, `wanted_3`, ... that is free."""
        stem = re.sub(r"\W", "_", wanted)
        stem = re.sub(r"_\d+$", "", stem) or "value"
        name, number = stem, 1
        if stem in _RESERVED:
            name = stem = f"{stem}_value"
        while name in self.used:
            number += 1
            name = f"{stem}_{number}"
        self.used.add(name)
        return name
