"""Unroll and jam: run R neighbouring iterations of a loop at once, sharing the loops inside it.

`for t { for d { sum += x[t * n + d] * y[d]; } }` loads y[d] again for every t. The edit takes R rows t at a time,
keeps one loop over d and repeats its body for each row: y[d] is loaded once for R rows. After a lane tile that is
a register tile, the heart of a matrix product.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tree_sitter import Node

from kevolve.languages.cpp.edits.dependence import effects, has_loop, independent, mentions, varying
from kevolve.languages.cpp.edits.edit import Edit, Parameters
from kevolve.languages.cpp.edits.source import TAG, Loop, Source, bracketed, child, statements, walk

NARROWEST_VECTOR = 4  # floats of the smallest vector that a chip may have


class Unjammable(Exception):
    """The loop's body holds something that rows cannot share."""


@dataclass(frozen=True)
class Jam:
    """How the body is written: which names differ between rows, and what they are called in each further row."""

    source: Source
    changing: frozenset[str]
    rows: tuple[Mapping[str, str], ...]

    def is_row(self, node: Node | None) -> bool:
        """True if the piece must be there once per row."""
        return bool(mentions(self.source, node) & self.changing)

    def repeated(self, node: Node) -> list[str]:
        """`node` once for every row."""
        return [self._renamed(node, names) for names in self.rows]

    def _renamed(self, node: Node, names: Mapping[str, str]) -> str:
        text, at = "", node.start_byte
        for n in walk(node):
            name = self.source.text(n) if n.type == "identifier" else ""
            if name in names:
                text += self.source.data[at : n.start_byte].decode() + names[name]
                at = n.end_byte
        return text + self.source.data[at : node.end_byte].decode()


def _block(jam: Jam, nodes: list[Node]) -> list[str]:
    """The statements of one scope for all rows."""
    lines: list[str] = []
    name = ""
    for node in nodes:
        text = jam.source.text(node)
        if TAG.fullmatch(text):
            name = text
            continue
        if node.type == "preproc_call":
            lines.append(_pragma(jam, node))
        elif not jam.is_row(node) or node.type == "comment":
            lines.append(name + text.strip())
        else:
            first, *more = _statement(jam, node)
            lines += [name + first, *more]
        name = ""
    return lines


def _pragma(jam: Jam, node: Node) -> str:
    """A pragma; the one before a loop over lanes also unrolls that.

    The compiler keeps an array in registers only if every index is a constant, and by itself it does not unroll
    a loop that R rows have made long. (Asked to unroll it whole, it does so before it looks for vectors.)
    """
    text, after = jam.source.text(node).strip(), node.next_named_sibling
    if set(re.findall(r"\w+", text)) & jam.changing:
        raise Unjammable("a pragma that names what differs between rows")
    while after is not None and after.type == "comment":
        after = after.next_named_sibling
    bound = child(child(after, "condition"), "right")
    lanes = jam.source.text(bound) if bound is not None else ""
    vectors = int(lanes) // NARROWEST_VECTOR if lanes.isdecimal() else 0
    is_long = text == "#pragma omp simd" and vectors > 1
    return f"#pragma GCC ivdep\n#pragma GCC unroll {vectors}" if is_long else text


def _statement(jam: Jam, node: Node) -> list[str]:
    """One statement that differs between rows: control that is the same for all is kept, the rest is repeated."""
    source = jam.source
    if node.type == "compound_statement":
        return ["{", *_block(jam, statements(node)), "}"]
    heads = [child(node, part) for part in ("initializer", "condition", "update")]
    is_shared = not any(jam.is_row(head) for head in heads)
    if node.type == "for_statement" and is_shared:
        body = child(node, "body")
        if body is not None and body.type == "compound_statement":
            head = source.data[node.start_byte : body.start_byte].decode().rstrip()
            return [f"{head} {{", *_block(jam, statements(body)), "}"]
    if node.type == "if_statement" and is_shared and has_loop(node):
        yes, no = child(node, "consequence"), child(node, "alternative")
        if yes is not None:
            head = source.data[node.start_byte : yes.start_byte].decode().rstrip()
            other = no.named_children[-1] if no is not None else None
            rest = ["} else {", *_block(jam, _inside(other))] if other is not None else []
            return [f"{head} {{", *_block(jam, _inside(yes)), *rest, "}"]
    if has_loop(node):
        raise Unjammable("a loop of its own for each row")
    return jam.repeated(node)


def _inside(node: Node) -> list[Node]:
    return statements(node) if node.type == "compound_statement" else [node]


def jam(source: Source, site: str, parameters: Parameters) -> str | None:
    """`rows` iterations of the loop at once, the loops inside it shared; what is left of the range runs as before."""
    loop = source.loop(site)
    if loop is None or loop.step != "1" or source.pragmas(loop) or not has_loop(loop.body):
        return None
    found, changing, count = effects(source, loop.body), frozenset(varying(source, loop)), int(parameters["rows"])
    declared = found.declared
    # Without a load that rows have in common there is nothing to win.
    is_shared = any(not (mentions(source, node) & changing) for _, node in found.loads)
    if not is_shared or not independent(source, loop) or loop.var in declared:
        return None
    plus = [source.fresh(f"{loop.var}_plus{row}") for row in range(1, count)]
    names = [{name: source.fresh(f"{name}_row{row}") for name in declared & changing} for row in range(1, count)]
    rows = ({}, *({**own, loop.var: row} for own, row in zip(names, plus, strict=True)))
    try:
        body = _block(Jam(source, changing, rows), statements(loop.body))
    except Unjammable:
        return None
    return source.splice([(*source.span(loop), "\n".join(_lines(source, loop, plus, body)))])


def _lines(source: Source, loop: Loop, plus: list[str], body: list[str]) -> list[str]:
    """The jammed loop and the one for what is left, whose loops have names of their own."""
    var, kind, count = loop.var, loop.type, len(plus) + 1
    full, extent = source.fresh(f"{var}_full"), f"{bracketed(loop.bound)} - {bracketed(loop.start)}"
    rest = TAG.sub(r"/*@\1r*/", source.text(loop.body))
    return [
        f"const {kind} {full} = {loop.start} + ({extent}) / {count} * {count};",
        f"/*@{loop.site}*/for ({kind} {var} = {loop.start}; {var} < {full}; {var} += {count}) {{",
        *(f"const {kind} {name} = {var} + {row};" for row, name in enumerate(plus, 1)),
        *body,
        "}",
        f"/*@{loop.site}r*/for ({kind} {var} = {full}; {var} < {loop.bound}; {var}++) {rest}",
    ]


EDIT = Edit(
    "jam",
    phase=5,
    weight=4.0,
    summary="run several iterations of a loop at once, sharing the loops inside it",
    apply=jam,
    domains={"rows": (2, 3, 4, 6, 8)},
    first={"rows": (4, 6)},
)
