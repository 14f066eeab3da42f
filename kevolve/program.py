"""Program: one source text, in one language, for one operator."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


def normalise(source: str) -> str:
    """The source as far as it can matter: newlines unified, trailing blanks and blank lines gone."""
    lines = (line.rstrip() for line in source.replace("\r\n", "\n").split("\n"))
    return "\n".join(line for line in lines if line) + "\n"


@dataclass(frozen=True)
class Program:
    """One candidate kernel.

    `origin` says how it came about (proposer, kind of request, edits made, genome) and is plain
    JSON: it is stored with the program and never decides identity.
    """

    operator: str
    language: str
    source: str
    parents: tuple[str, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @cached_property
    def id(self) -> str:
        """Hash of operator, language and normalised source: 16 hexadecimal digits."""
        text = "\0".join((self.operator, self.language, normalise(self.source)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]
