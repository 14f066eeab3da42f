"""What a named source edit is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kevolve.languages.cpp.edits.source import Source

Value = int | str | bool
Parameters = Mapping[str, Value]


def loop_sites(source: Source) -> Sequence[str]:
    """Every loop of the program by name."""
    return source.sites


def function_sites(source: Source) -> Sequence[str]:
    """The program's entry points by name: its functions that are neither static nor templates."""
    found = []
    for name, node in source.functions.items():
        is_template = node.parent is not None and node.parent.type == "template_declaration"
        words = [source.text(n) for n in node.named_children if n.type == "storage_class_specifier"]
        if not is_template and not {"static", "inline"} & set(words):
            found.append(name)
    return found


@dataclass(frozen=True)
class Edit:
    """A typed, addressable change to a program.

    `apply(source, site, parameters)` gives the changed program, or None where the edit does not apply: it is
    also what decides where the edit may be proposed. Edits run in order of `phase`, because early ones
    look for shapes that later ones destroy. `domains` are the values a parameter may take, in an order in
    which neighbours are alike; `first` are the values worth trying first. `slot` names what the edit uses
    up at its site: of two edits in one slot a genome keeps one. `weight` is its share of first attempts.
    """

    name: str
    phase: int
    weight: float
    summary: str
    apply: Callable[[Source, str, Parameters], str | None]
    domains: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    first: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    candidates: Callable[[Source], Sequence[str]] = loop_sites
    slot: str = ""
