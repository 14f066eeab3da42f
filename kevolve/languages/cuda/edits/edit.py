"""What a named edit of a CUDA C++ program is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kevolve.languages.cuda.edits.source import Source

Value = int | str | bool
Parameters = Mapping[str, Value]


@dataclass(frozen=True)
class Edit:
    """A typed, addressable change to a program.

    `apply(source, site, parameters)` gives the changed program, or None where the edit does not apply. Edits run in
    order of `phase`. `domains` are the values a parameter may take, in an order in which neighbours are alike; `first`
    are the values worth trying first. Of two edits in one `slot` a genome keeps one at a site. `weight` is an edit's
    share of first attempts.
    """

    name: str
    phase: int
    weight: float
    summary: str
    apply: Callable[[Source, str, Parameters], str | None]
    candidates: Callable[[Source], Sequence[str]]
    domains: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    first: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    slot: str = ""
