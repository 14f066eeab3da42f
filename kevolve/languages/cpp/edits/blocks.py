"""Block copy: loops that copy or zero neighbouring elements as one `memcpy` or `memset` of the block."""

from __future__ import annotations

from dataclasses import dataclass

from tree_sitter import Node

from kevolve.languages.cpp.edits.dependence import declared_name, effects, mentions, subscript
from kevolve.languages.cpp.edits.edit import Edit, Parameters
from kevolve.languages.cpp.edits.source import TAG, Loop, Source, bracketed, child, statements

ZEROS = ("0", "0.0f", "0.0", "0.f", "VALUE(0)")


@dataclass(frozen=True)
class Copy:
    """`to[index] = from[index]` in one or two loops around it; `origin` is None where zeros are stored."""

    target: Node
    origin: Node | None
    row: Loop | None  # the outer of two loops, over rows that lie side by side in memory
    element: Loop


def _only(body: Node) -> Node | None:
    nodes = [n for n in statements(body) if n.type != "comment"]
    return nodes[0] if len(nodes) == 1 else None


def _copy(source: Source, loop: Loop) -> Copy | None:
    """What the loop copies, if it does nothing else and neighbours in time are neighbours in memory."""
    inner = _only(loop.body)
    row = loop if inner is not None and inner.type == "for_statement" else None
    element = source.loop(source.site_of(inner) or "") if row is not None and inner is not None else loop
    only = _only(element.body) if element is not None and element.step == "1" else None
    if element is None or only is None or only.type != "expression_statement" or loop.step != "1":
        return None
    if row is not None and (source.pragmas(element) or element.start != "0" or row.var in element.bound.split()):
        return None
    left, right, operator = (child(only.named_children[0], part) for part in ("left", "right", "operator"))
    if left is None or right is None or operator is None or source.text(operator) != "=":
        return None
    copy = Copy(left, None if source.text(right) in ZEROS else right, row, element)
    places = [place for place in (copy.target, copy.origin) if place is not None]
    is_sound = all(_in_order(source, copy, place) for place in places) and _apart(source, places)
    return copy if is_sound else None


def _in_order(source: Source, copy: Copy, place: Node) -> bool:
    """True if `place` moves on by one element with the inner loop, and by one row of them with the outer."""
    indices = child(place, "indices")
    if place.type != "subscript_expression" or subscript(source, place) is None or indices is None:
        return False
    index, found = indices.named_children[0], effects(source, indices)
    if found.written or found.opaque or found.loads:
        return False
    if copy.row is None:
        return _counts(source, index, copy.element.var)
    lead, column = child(index, "left"), child(index, "right")
    is_sum = index.type == "binary_expression" and source.text(child(index, "operator") or index) == "+"
    if lead is None or column is None or not is_sum or source.text(column) != copy.element.var:
        return False
    row, width = child(lead, "left"), child(lead, "right")
    is_product = lead.type == "binary_expression" and source.text(child(lead, "operator") or lead) == "*"
    if row is None or width is None or not is_product or source.text(width) != copy.element.bound:
        return False
    return width.type == "identifier" and _counts(source, row, copy.row.var)


def _counts(source: Source, index: Node, var: str) -> bool:
    """True if `index` is a sum with `var` as one of its terms and nowhere else in it."""
    if index.type == "parenthesized_expression":
        return _counts(source, index.named_children[0], var)
    if index.type != "binary_expression":
        return source.text(index) == var
    left, right, operator = (child(index, part) for part in ("left", "right", "operator"))
    if left is None or right is None or operator is None or source.text(operator) != "+":
        return False
    if var in mentions(source, left):
        return var not in mentions(source, right) and _counts(source, left, var)
    return _counts(source, right, var)


def _apart(source: Source, places: list[Node]) -> bool:
    """True if the places are in different arguments of one type: outputs overlap no input."""
    function = source.function_of(places[0])
    arguments = child(child(function, "declarator"), "parameters")
    kinds = {}
    for n in arguments.named_children if arguments is not None else ():
        declarator = child(n, "declarator")
        if declarator is not None and declarator.type == "pointer_declarator":
            kinds[declared_name(source, declarator)] = source.text(child(n, "type") or n)
    bases = [source.text(child(place, "argument") or place) for place in places]
    known = {kinds.get(base) for base in bases}
    return len(set(bases)) == len(bases) and len(known) == 1 and None not in known


def block_copy(source: Source, site: str, parameters: Parameters) -> str | None:
    """The loop, or the loop and the one inside it, as one `memcpy` or `memset`: zero is all bits zero in all types.

    `store` is `cached`, or `streamed` past the cache: whole lines, which need not be read before they are written.
    The loops' variables stay as names of the first element, so that what is stored where reads as before.
    """
    loop = source.loop(site)
    copy = _copy(source, loop) if loop is not None and not source.pragmas(loop) else None
    if loop is None or copy is None:
        return None
    start, bound = bracketed(loop.start), bracketed(loop.bound)
    first, count = [f"const {loop.type} {loop.var} = {loop.start};"], f"{bound} - {start}"
    if loop.start == "0":
        count = loop.bound
    if copy.row is not None:
        first.append(f"const {copy.element.type} {copy.element.var} = 0;")
        count = f"{bracketed(count)} * {copy.element.bound}"
    target, base = source.text(copy.target), source.text(child(copy.target, "argument") or copy.target)
    origin = f"&{source.text(copy.origin)}" if copy.origin is not None else ""
    size = f"static_cast<size_t>({count}) * sizeof(*{base})"
    call = f"std::memcpy(&{target}, {origin}, {size});" if origin else f"std::memset(&{target}, 0, {size});"
    if parameters["store"] == "streamed":
        call = f"stream_copy(&{target}, {origin}, {count});" if origin else f"stream_zero(&{target}, {count});"
    text = "\n".join([f"if ({loop.start} < {loop.bound}) {{", *first, call, "}"])
    return source.splice([(*source.span(loop), TAG.sub("", text))])


EDIT = Edit(
    "block_copy",
    phase=1,
    weight=2.0,
    summary="copy or zero neighbouring elements as one block",
    apply=block_copy,
    domains={"store": ("cached", "streamed")},
)
