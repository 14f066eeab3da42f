"""Edits on the shape of a loop nest: split a reduction, strip-mine, interchange, fuse."""

from __future__ import annotations

from tree_sitter import Node

from kevolve.languages.cpp.edits.dependence import (
    Accumulator,
    accumulators,
    clashes,
    declared_names,
    effects,
    independent,
    mentions,
)
from kevolve.languages.cpp.edits.edit import Edit, Parameters
from kevolve.languages.cpp.edits.lanes import shifted
from kevolve.languages.cpp.edits.source import TAG, Loop, Source, bracketed, child, statements, walk


def _pieces(source: Source, body: Node, names: dict[str, str], loop: Loop, step: int) -> str:
    """The loop's body `step` iterations further on, with `names` replaced."""
    text, at = "", body.start_byte
    for n in walk(body):
        name = source.text(n) if n.type == "identifier" else ""
        if name in names or (step and name == loop.var):
            new = names[name] if name in names else shifted(source, n, str(step))
            text += source.data[at : n.start_byte].decode() + new
            at = n.end_byte
    return TAG.sub("", text + source.data[at : body.end_byte].decode())


def _declared_type(source: Source, loop: Loop, name: str) -> str | None:
    """The type that `name` was declared with in the loop's function, if that is a plain scalar."""
    function = source.function_of(loop.node)
    for n in walk(function) if function is not None else ():
        if n.type == "declaration" and name in declared_names(source, n):
            kind = child(n, "type")
            return source.text(kind) if kind is not None and kind.type != "placeholder_type_specifier" else None
    return None


def _combined(fold: Accumulator, name: str, part: str) -> str:
    if fold.kind == "+":
        return f"{name} += {part};"
    return f"{name} = {part} {'>' if fold.kind == 'max' else '<'} {name} ? {part} : {name};"


def accumulate(source: Source, site: str, parameters: Parameters) -> str | None:
    """`ways` iterations at a time, each folding into the same scalar or (`partial`) into one of its own."""
    loop = source.loop(site)
    if loop is None or loop.step != "1" or source.pragmas(loop):
        return None
    parent, found = loop.node.parent, effects(source, loop.body)
    folds = accumulators(source, loop)
    if parent is None or parent.type != "compound_statement" or found.opaque or not folds or found.stores:
        return None
    ways, var = int(parameters["ways"]), loop.var
    kinds = {fold.name: _declared_type(source, loop, fold.name) for fold in folds}
    if None in kinds.values():
        return None
    names: list[dict[str, str]] = [{} for _ in range(ways)]
    before, after = [], []
    for way in range(1, ways) if parameters["partial"] else ():
        for fold in folds:
            part = names[way][fold.name] = source.fresh(f"{fold.name}_{way}")
            before.append(f"{kinds[fold.name]} {part} = {'0' if fold.kind == '+' else fold.name};")
            after.append(_combined(fold, fold.name, part))
    full, extent = source.fresh(f"{var}_full"), f"{bracketed(loop.bound)} - {bracketed(loop.start)}"
    copies = [_pieces(source, loop.body, names[way], loop, way) for way in range(ways)]
    rest = source.data[loop.body.start_byte : loop.body.end_byte].decode()
    lines = [
        *before,
        f"const {loop.type} {full} = {loop.start} + ({extent}) / {ways} * {ways};",
        f"/*@{site}*/for ({loop.type} {var} = {loop.start}; {var} < {full}; {var} += {ways}) {{",
        *copies,
        "}",
        f"/*@{site}r*/for ({loop.type} {var} = {full}; {var} < {loop.bound}; {var}++) {rest}",
        *after,
    ]
    return source.splice([(*source.span(loop), "\n".join(lines))])


def strip_mine(source: Source, site: str, parameters: Parameters) -> str | None:
    """The loop in blocks of `tile` iterations under a loop over the blocks."""
    loop = source.loop(site)
    if loop is None or loop.step != "1" or source.pragmas(loop) or effects(source, loop.body).opaque:
        return None
    tile, var = parameters["tile"], loop.var
    outer, end = source.fresh(f"{var}_block"), source.fresh(f"{var}_end")
    body, bound = source.text(loop.body), bracketed(loop.bound)
    lines = [
        f"/*@{site}b*/for ({loop.type} {outer} = {loop.start}; {outer} < {loop.bound}; {outer} += {tile}) {{",
        f"const {loop.type} {end} = {bound} - {outer} < {tile} ? {bound} : {outer} + {tile};",
        f"/*@{site}*/for ({loop.type} {var} = {outer}; {var} < {end}; {var}++) {body}",
        "}",
    ]
    return source.splice([(*source.span(loop), "\n".join(lines))])


def nest(source: Source, loop: Loop) -> tuple[list[Node], Loop] | None:
    """The loop's body as declarations followed by one loop whose range does not depend on them or on the loop."""
    nodes = [n for n in statements(loop.body) if n.type != "comment"]
    if not nodes or any(n.type != "declaration" for n in nodes[:-1]) or nodes[-1].type != "for_statement":
        return None
    inner = source.loop(source.site_of(nodes[-1]) or "")
    if inner is None or source.pragmas(inner):
        return None
    names = {loop.var}.union(*(declared_names(source, n) for n in nodes[:-1]))
    header = (child(inner.node, "initializer"), child(inner.node, "condition"))
    depends = any(mentions(source, part) & names for part in header)
    return None if depends or names & effects(source, inner.body).written else (nodes[:-1], inner)


def sunk(source: Source, loop: Loop, outer_head: str, inner_head: str) -> str | None:
    """A perfect nest: the two heads one after the other, and the declarations moved into the inner body."""
    found = nest(source, loop)
    if found is None:
        return None
    declarations, inner = found
    body = source.data[inner.body.start_byte + 1 : inner.body.end_byte].decode()
    return "\n".join([outer_head + " {", inner_head + " {", *map(source.text, declarations), body.lstrip(), "}"])


def interchange(source: Source, site: str, parameters: Parameters) -> str | None:
    """The loop and the one loop inside it change places."""
    loop = source.loop(site)
    found = nest(source, loop) if loop is not None else None
    if loop is None or found is None or source.pragmas(loop) or not independent(source, loop):
        return None
    inner = found[1]
    if not independent(source, inner):
        return None
    text = sunk(source, loop, f"/*@{inner.site}*/{inner.header}", f"/*@{site}*/{loop.header}")
    return source.splice([(*source.span(loop), text)]) if text is not None else None


def fuse(source: Source, site: str, parameters: Parameters) -> str | None:
    """The loop and the next one, which runs over the same range, as one loop."""
    first = source.loop(site)
    node = first.node.next_named_sibling if first is not None else None
    if first is None or node is None or node.type != "comment":
        return None
    found = TAG.fullmatch(source.text(node))
    second = source.loop(found.group(1)) if found else None
    if second is None or second.header != first.header or second.node.prev_named_sibling != node:
        return None
    one, two = effects(source, first.body), effects(source, second.body)
    shared = (one.outer_writes & two.mentions) | (two.outer_writes & one.mentions) | (one.declared & two.declared)
    if one.opaque or two.opaque or shared or clashes(source, one, two) or source.pragmas(first):
        return None
    body = "\n".join(source.text(n) for n in statements(first.body)) + "\n"
    rest = source.data[second.body.start_byte + 1 : second.body.end_byte].decode().lstrip()
    text = f"/*@{site}*/{first.header} {{\n{body}{rest}"
    return source.splice([(source.span(first)[0], second.node.end_byte, text)])


EDITS = (
    Edit(
        "accumulate",
        phase=2,
        weight=1.5,
        summary="several iterations of a reduction at a time, into one or several partial results",
        apply=accumulate,
        domains={"ways": (2, 3, 4, 6, 8), "partial": (False, True)},
        first={"ways": (2, 4)},
    ),
    Edit("interchange", phase=3, weight=0.2, summary="swap a loop with the one inside it", apply=interchange),
    Edit(
        "strip_mine",
        phase=3,
        weight=0.4,
        summary="split a loop into blocks",
        apply=strip_mine,
        domains={"tile": (8, 16, 32, 64, 128, 256, 512, 1024)},
    ),
    Edit("fuse", phase=1, weight=0.3, summary="merge neighbouring loops over the same range", apply=fuse),
)
