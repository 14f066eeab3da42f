"""Edits on how memory is walked: fills, addresses computed once, prefetches, narrower index types."""

from __future__ import annotations

import re

from tree_sitter import Node

from kevolve.languages.cpp.edits.blocks import ZEROS
from kevolve.languages.cpp.edits.dependence import (
    declared_name,
    declared_names,
    effects,
    leading_product,
    mentions,
    subscript,
)
from kevolve.languages.cpp.edits.edit import Edit, Parameters, function_sites
from kevolve.languages.cpp.edits.source import TAG, Loop, Source, bracketed, child, inside_loop, statements, walk

CACHE_LINE_FLOATS = 16
MOST_PREFETCHES = 32


def _zero_fill(source: Source, loop: Loop | None) -> str | None:
    """The pointer that the loop does nothing but fill with zeros, one element after the other."""
    nodes = [n for n in statements(loop.body) if n.type != "comment"] if loop is not None else []
    store = nodes[0].named_children[0] if len(nodes) == 1 and nodes[0].type == "expression_statement" else None
    left, right, operator = (child(store, part) for part in ("left", "right", "operator"))
    place = subscript(source, left) if left is not None and left.type == "subscript_expression" else None
    if loop is None or loop.step != "1" or place is None or right is None or operator is None:
        return None
    is_zero = source.text(operator) == "=" and source.text(right) in ZEROS
    return place[0] if is_zero and place[1] == loop.var else None


def memset_fill(source: Source, site: str, parameters: Parameters) -> str | None:
    """A loop that fills with zeros as one `memset`: all types a program may store have zero as all bits zero."""
    loop = source.loop(site)
    base = _zero_fill(source, loop)
    if loop is None or base is None or source.pragmas(loop):
        return None
    start, bound = bracketed(loop.start), bracketed(loop.bound)
    call = f"std::memset({base} + {start}, 0, static_cast<size_t>({bound} - {start}) * sizeof(*{base}));"
    return source.splice([(*source.span(loop), f"if ({start} < {bound}) {{\n{call}\n}}")])


def fill_gaps(source: Source, site: str, parameters: Parameters) -> str | None:
    """Zeros only where the next loop nest stores nothing, found from the ranges that it will store to.

    The nest must store whole rows [first, end) for each iteration of its outer loop. If at run time those ranges
    turn out not to be ascending, or to leave the filled range, everything is filled as before.
    """
    loop = source.loop(site)
    base, after = _zero_fill(source, loop), loop.node.next_named_sibling if loop is not None else None
    while after is not None and after.type == "comment" and not TAG.fullmatch(source.text(after)):
        after = after.next_named_sibling
    name = TAG.fullmatch(source.text(after)) if after is not None else None
    outer = source.loop(name.group(1)) if name else None
    if loop is None or base is None or outer is None or source.pragmas(loop):
        return None
    rows = _rows_stored(source, outer, base)
    if rows is None:
        return None
    declarations, first, end, width = rows
    filled, ordered, at = source.fresh("filled"), source.fresh("ordered"), loop.var
    row, past = source.fresh("row_first"), source.fresh("row_end")
    lines = [
        f"{loop.type} {filled} = {loop.start};",
        f"bool {ordered} = true;",
        f"{outer.header} {{",
        *declarations,
        f"const {loop.type} {row} = {bracketed(first)} * {width}, {past} = {bracketed(end)} * {width};",
        f"if ({row} < {past}) {{",
        f"{ordered} = {ordered} && {row} >= {filled} && {past} <= {bracketed(loop.bound)};",
        f"for ({loop.type} {at} = {filled}; {ordered} && {at} < {row}; {at}++) {{",
        f"{base}[{at}] = 0.0f;",
        "}",
        f"{filled} = {ordered} ? {past} : {loop.start};",
        "}",
        "}",
        f"/*@{site}*/for ({loop.type} {at} = {filled}; {at} < {loop.bound}; {at}++) {{",
        f"{base}[{at}] = 0.0f;",
        "}",
    ]
    return source.splice([(*source.span(loop), "\n".join(lines))])


def _rows_stored(source: Source, outer: Loop, base: str) -> tuple[list[str], str, str, str] | None:
    """(declarations, first row, end row, width) if every iteration of `outer` stores base[first*width .. end*width)."""
    found = effects(source, outer.body)
    stores = [node for name, node in found.stores if name == base]
    if len(stores) != 1 or any(name == base for name, _ in found.loads) or found.opaque:
        return None
    loops = _enclosing(source, stores[0], outer)
    place = subscript(source, stores[0])
    if loops is None or place is None or len(loops) != 2 or any(inner.step != "1" for inner in loops):
        return None
    for row, column in (loops, loops[::-1]):
        base_row = _base_row(place[1], row.var, column)
        covers = column.start == "0" and column.bound.isidentifier()
        if covers and base_row is not None:
            nodes = [n for n in statements(outer.body) if n.type == "declaration"]
            names = {name for n in nodes for name in declared_names(source, n)}
            header = [child(row.node, part) for part in ("initializer", "condition")]
            used = {name for part in header for name in mentions(source, part)} - {row.var}
            used |= set(re.findall(r"[A-Za-z_]\w*", base_row))
            is_known = not used & (found.declared - names) and not (used | names | {column.bound}) & found.written
            texts = [source.text(n) for n in nodes]
            first, end = (f"{base_row}{bracketed(edge)}" for edge in (row.start, row.bound))
            return (texts, first, end, column.bound) if is_known else None
    return None


def _base_row(index: str, row: str, column: Loop) -> str | None:
    """`a + ` if the index is `(a + row) * width + column`, empty if it is `row * width + column`; else None."""
    width = column.bound
    if index in (f"{row} * {width} + {column.var}", f"{width} * {row} + {column.var}"):
        return ""
    found = re.fullmatch(rf"\((\w+ \+ ){re.escape(row)}\) \* {re.escape(width)} \+ {re.escape(column.var)}", index)
    return found.group(1) if found else None


def _enclosing(source: Source, node: Node, outer: Loop) -> list[Loop] | None:
    """The loops between `outer` and `node`, if nothing but loops and braces lies between them."""
    loops: list[Loop] = []
    current = node.parent
    while current is not None and current.id != outer.node.id:
        if current.type == "for_statement":
            inner = source.loop(source.site_of(current) or "")
            if inner is None:
                return None
            loops.append(inner)
        elif current.type not in ("compound_statement", "expression_statement", "assignment_expression"):
            return None
        current = current.parent
    return loops


def hoist_address(source: Source, site: str, parameters: Parameters) -> str | None:
    """`p[a * b + rest]` in a loop as `p_row[rest]`, where a * b is known when the iteration starts."""
    loop = source.loop(site)
    if loop is None:
        return None
    inner = effects(source, loop.body).declared | effects(source, loop.body).written
    rows: dict[tuple[str, str], str] = {}
    splices = []
    for node in walk(loop.body):
        place = subscript(source, node) if node.type == "subscript_expression" else None
        lead = leading_product(source, child(node, "indices")) if place is not None else None
        if place is None or lead is None or mentions(source, lead) & inner or place[0] in inner:
            continue
        key = (place[0], source.text(lead))
        rows.setdefault(key, source.fresh(f"{place[0]}_row" + (f"_{len(rows)}" if rows else "")))
        text = source.text(node)
        rest = place[1][len(key[1]) :].lstrip().removeprefix("+").strip()
        if place[1].startswith(key[1]) and text.startswith(place[0]):
            splices.append((node.start_byte, node.end_byte, f"{rows[key]}[{rest}]"))
    if not splices:
        return None
    start = loop.body.start_byte + 1
    lines = "".join(f"\nauto *{name} = {base} + {lead};" for (base, lead), name in rows.items())
    return source.splice([(start, start, lines), *splices])


def prefetch(source: Source, site: str, parameters: Parameters) -> str | None:
    """Rows that a loop will read `distance` iterations from now, asked for in advance, a cache line at a time."""
    loop = source.loop(site)
    if loop is None or not inside_loop(loop.node) or b"__builtin_prefetch" in source.data:
        return None
    found = effects(source, loop.body)
    stored = {name for name, _ in found.stores}
    ahead = f"({loop.var} + {int(parameters['distance'])} * {loop.step})"
    lines: list[str] = []
    for base, node in found.loads:
        index = child(node, "indices")
        names = mentions(source, index)
        if loop.var not in names or base in stored or base in found.declared:
            continue
        lane = _lane_of(source, node, loop)
        if names & found.declared - {lane[0]}:
            continue
        for offset in range(0, max(lane[1], 1), CACHE_LINE_FLOATS):
            line = f"\n__builtin_prefetch({base} + ({_with(source, index, {loop.var: ahead, lane[0]: str(offset)})}));"
            lines += [line] if line not in lines else []
    if not lines or len(lines) > MOST_PREFETCHES:
        return None
    start = loop.body.start_byte + 1
    return source.splice([(start, start, "".join(lines))])


def _lane_of(source: Source, node: Node, loop: Loop) -> tuple[str, int]:
    """The variable and the constant length of the loop between `loop` and `node`, or ("", 0)."""
    current = node.parent
    while current is not None and current.id != loop.node.id:
        if current.type == "for_statement":
            name = declared_name(source, child(child(current, "initializer"), "declarator"))
            bound = source.text(child(child(current, "condition"), "right") or current)
            return name or "", int(bound) if bound.isdigit() else 1
        current = current.parent
    return "", 0


def _with(source: Source, index: Node | None, values: dict[str, str]) -> str:
    """The text of a subscript's index with names replaced."""
    node = index.named_children[0] if index is not None else None
    if node is None:
        return "0"
    text, at = "", node.start_byte
    for n in walk(node):
        if n.type == "identifier" and source.text(n) in values:
            text += source.data[at : n.start_byte].decode() + values[source.text(n)]
            at = n.end_byte
    return text + source.data[at : node.end_byte].decode()


def narrow_index(source: Source, site: str, parameters: Parameters) -> str | None:
    """Indices of 32 bits where the product of all sizes fits, and of 64 bits as before where it does not."""
    function = source.functions.get(site)
    declarator, body = child(function, "declarator"), child(function, "body")
    arguments = child(declarator, "parameters")
    if function is None or declarator is None or body is None or arguments is None:
        return None
    top = function
    while top.parent is not None and top.parent.type == "linkage_specification":
        top = top.parent
    names = [declared_name(source, child(n, "declarator")) or "" for n in arguments.named_children]
    sizes = [name for name, n in zip(names, arguments.named_children, strict=True) if _is_size(source, n)]
    if not sizes or "" in names:
        return None
    inner, size = source.fresh(f"{site}_sized"), source.fresh("SIZE")
    text, at = f"template <typename {size}>\nstatic void {inner}", arguments.start_byte
    for n in walk(function):
        if n.start_byte >= arguments.start_byte and n.type == "primitive_type" and source.text(n) == "int64_t":
            text += source.data[at : n.start_byte].decode() + size
            at = n.end_byte
    text += source.data[at : function.end_byte].decode()
    fits = " * ".join(f"(1.0 + {name})" for name in sizes)
    call = ", ".join(names)
    head = source.data[top.start_byte : body.start_byte].decode()
    narrow, wide = (f"{{\n{inner}<{width}>({call});\n}}" for width in ("int32_t", "int64_t"))
    entry = f"{head}{{\nif ({fits} < 2147483648.0) {narrow} else {wide}\n}}"
    attribute = next((source.text(n) + " " for n in function.named_children if n.type == "attribute_specifier"), "")
    text = text.replace("static void", f"{attribute}static void", 1)
    return source.splice([(top.start_byte, top.end_byte, f"{text}\n\n{entry}")])


def _is_size(source: Source, argument: Node) -> bool:
    kind, name = child(argument, "type"), child(argument, "declarator")
    return kind is not None and source.text(kind) == "int64_t" and name is not None and name.type == "identifier"


EDITS = (
    Edit("memset_fill", phase=0, weight=0.2, summary="fill with memset", apply=memset_fill, slot="fill"),
    Edit(
        "fill_gaps",
        phase=0,
        weight=0.8,
        summary="fill with zeros only what the next loop nest leaves out",
        apply=fill_gaps,
        slot="fill",
    ),
    Edit(
        "hoist_address",
        phase=5,
        weight=0.4,
        summary="compute the address of a row once",
        apply=hoist_address,
    ),
    Edit(
        "prefetch",
        phase=5,
        weight=0.5,
        summary="prefetch rows ahead of a loop",
        apply=prefetch,
        domains={"distance": (2, 4, 8, 16, 32, 64)},
    ),
    Edit(
        "narrow_index",
        phase=8,
        weight=0.2,
        summary="index with 32 bits where sizes fit",
        apply=narrow_index,
        candidates=function_sites,
    ),
)
