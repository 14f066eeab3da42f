"""Lane tile: run W neighbouring iterations of a loop side by side, as a vectorised inner loop.

`for d { float sum = 0; for t { sum += x[t * n + d]; } out[d] = sum; }` walks memory with a stride of n. The
edit strip-mines d by W, turns each scalar that differs between iterations into an array of W, moves loops
whose range is the same for all lanes outside, and leaves statements in `omp simd` loops over the lanes:
memory is then walked in order. What is left of the range runs as a narrower tile or as the loop it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tree_sitter import Node

from kevolve.languages.cpp.edits.dependence import clashes, declared_names, effects, has_loop, mentions, varying
from kevolve.languages.cpp.edits.edit import Edit, Parameters
from kevolve.languages.cpp.edits.source import TAG, Loop, Source, bracketed, child, statements, walk

NARROWEST = 16  # lanes of the tiles for what is left: one vector of floats


class Untileable(Exception):
    """The loop's body holds something that lanes cannot share."""


@dataclass(frozen=True)
class Tile:
    """How one copy of the body is written: which names are arrays over the lanes, and how far the lanes go."""

    source: Source
    loop: Loop
    changing: frozenset[str]
    width: int
    lane: str
    lanes: str
    arrays: frozenset[str] = field(default_factory=frozenset)

    def expression(self, node: Node) -> str:
        """`node` for one lane: the loop's variable moved on by the lane, arrays indexed by it."""
        offset, edits = node.start_byte, []
        for n in walk(node):
            name = self.source.text(n) if n.type == "identifier" else ""
            if name in self.arrays:
                edits.append((n, f"{name}[{self.lane}]"))
            elif name == self.loop.var:
                edits.append((n, shifted(self.source, n, self.lane)))
        text, at = "", offset
        for n, new in edits:
            text += self.source.data[at : n.start_byte].decode() + new
            at = n.end_byte
        return text + self.source.data[at : node.end_byte].decode()

    def is_lane(self, node: Node) -> bool:
        """True if the statement must run once per lane."""
        found = effects(self.source, node)
        return bool(found.stores) or bool(found.mentions & self.changing)


def shifted(source: Source, name: Node, offset: str) -> str:
    """`name` moved on by `offset`, in brackets only where the expression around it needs them."""
    parent, text = name.parent, f"{source.text(name)} + {offset}"
    if parent is not None and parent.type == "subscript_argument_list":
        return text
    operator = child(parent, "operator")
    is_sum = parent is not None and parent.type == "binary_expression" and operator is not None
    return text if is_sum and operator is not None and source.text(operator) == "+" else f"({text})"


def block(tile: Tile, nodes: list[Node]) -> list[str]:
    """The statements of one scope over all lanes: lane statements gathered into loops, the rest as it is."""
    lines: list[str] = []
    group: list[Node] = []
    for index, node in enumerate(nodes):
        if node.type == "comment":
            if not TAG.fullmatch(tile.source.text(node)):
                lines += _flush(tile, group, nodes[index:])[0]
                group = []
                lines.append(tile.source.text(node))
            continue
        if not _stays_outside(tile, node):
            group.append(node)
            continue
        text, tile = _flush(tile, group, nodes[index:])
        group = []
        lines += text + _outside(tile, node)
    return lines + _flush(tile, group, [])[0]


def _stays_outside(tile: Tile, node: Node) -> bool:
    """True if the statement is the same for all lanes, or is control around loops that is the same for all."""
    if not tile.is_lane(node):
        return True
    heads = [child(node, part) for part in ("initializer", "condition", "update")]
    if any(mentions(tile.source, head) & tile.changing for head in heads):
        return False
    return node.type == "for_statement" or (node.type in ("compound_statement", "if_statement") and has_loop(node))


def _outside(tile: Tile, node: Node) -> list[str]:
    """A statement around the lane loops."""
    source = tile.source
    name = source.site_of(node)
    prefix = f"/*@{name}*/" if name else ""
    if not tile.is_lane(node):
        return [prefix + source.text(node)]
    body = child(node, "body") if node.type == "for_statement" else node
    if node.type == "if_statement":
        body = child(node, "consequence")
        if child(node, "alternative") is not None:
            raise Untileable("else around a loop")
    if body is None or body.type != "compound_statement":
        raise Untileable("body without braces")
    head = source.data[node.start_byte : body.start_byte].decode()
    return [prefix + head + "{", *block(tile, statements(body)), "}"]


def _flush(tile: Tile, group: list[Node], rest: list[Node]) -> tuple[list[str], Tile]:
    """The gathered statements as one lane loop; names that `rest` still needs become arrays."""
    if not group:
        return [], tile
    later = frozenset().union(*(mentions(tile.source, node) for node in rest))
    declarations, body = [], []
    arrays = set(tile.arrays)
    for node in group:
        if effects(tile.source, node).outer_writes - tile.changing:
            raise Untileable("a lane that moves what all lanes share")
        if has_loop(node):
            raise Untileable("a loop of its own for each lane")
        names = set(declared_names(tile.source, node)) if node.type == "declaration" else set()
        if names & later:
            arrays |= names
            tile = replace(tile, arrays=frozenset(arrays))
            declarations.append(_array_declaration(tile, node))
            body += _initialisers(tile, node)
        else:
            arrays -= names
            tile = replace(tile, arrays=frozenset(arrays))
            body.append(_tagged(tile, node))
    lane = f"for (int {tile.lane} = 0; {tile.lane} < {tile.lanes}; {tile.lane}++) {{"
    loop = ["#pragma omp simd", lane, *body, "}"] if body else []
    return declarations + loop, tile


def _tagged(tile: Tile, node: Node) -> str:
    name = tile.source.site_of(node)
    return (f"/*@{name}*/" if name else "") + tile.expression(node)


def _array_declaration(tile: Tile, node: Node) -> str:
    declarators = node.children_by_field_name("declarator")
    plain = [d if d.type == "identifier" else child(d, "declarator") for d in declarators]
    if any(d is None or d.type != "identifier" for d in plain):
        raise Untileable("an array or pointer for each lane")
    kind = tile.source.data[node.start_byte : declarators[0].start_byte].decode()
    words = [word for word in kind.split() if word != "const"]
    if {"auto", "static", "constexpr"} & set(words):
        raise Untileable(f"{kind} for each lane")
    names = ", ".join(f"{tile.source.text(d)}[{tile.width}]" for d in plain if d is not None)
    return f"alignas(64) {' '.join(words)} {names};"


def _initialisers(tile: Tile, node: Node) -> list[str]:
    lines = []
    for declarator in node.children_by_field_name("declarator"):
        name, value = child(declarator, "declarator"), child(declarator, "value")
        if name is not None and value is not None:
            lines.append(f"{tile.source.text(name)}[{tile.lane}] = {tile.expression(value)};")
    return lines


def tileable(source: Source, loop: Loop) -> bool:
    """True if lanes of the loop can run side by side, statement by statement."""
    found = effects(source, loop.body)
    if loop.step != "1" or found.opaque or found.outer_writes or clashes(source, found):
        return False
    changing = varying(source, loop)
    return all(
        base not in found.arrays and mentions(source, child(node, "indices")) & changing for base, node in found.stores
    )


def lane_tile(source: Source, site: str, parameters: Parameters) -> str | None:
    """The loop in tiles of `width` lanes; `tail` says how the rest of the range runs.

    `narrow`: as one tile of as many lanes as are left; `scalar`: as the loop was; `tiles`: in narrower tiles first.
    """
    loop = source.loop(site)
    if loop is None or not tileable(source, loop):
        return None
    width, var = int(parameters["width"]), loop.var
    lane, lanes, tail = source.fresh("lane"), source.fresh("lanes"), source.fresh(f"{var}_tail")
    tile = Tile(source, loop, frozenset(varying(source, loop)), width, lane, str(width))
    try:
        full = block(tile, statements(loop.body))
        narrow = block(replace(tile, lanes=lanes), statements(loop.body))
    except Untileable:
        return None
    start, bound = loop.start, bracketed(loop.bound)
    lines = [
        f"/*@{site}*/for ({loop.type} {var} = {start}; {var} < {bound}; {var} += {width}) {{",
        f"if ({bound} - {var} >= {width}) {{",
        *full,
        "} else {",
    ]
    if parameters["tail"] == "narrow":
        lines += [f"const int {lanes} = static_cast<int>({bound} - {var});", *_retagged(narrow)]
    else:
        rest = _renamed(source, loop, tail)
        lines += [f"/*@{site}t*/for ({loop.type} {tail} = {var}; {tail} < {bound}; {tail}++) {rest}"]
    begin, end = source.span(loop)
    text = source.splice([(begin, end, "\n".join([*lines, "}", "}"]))])
    if parameters["tail"] != "tiles":
        return text
    # What is left of a wide tile is often a whole number of narrow ones, and a constant width keeps sums in registers.
    return lane_tile(Source(text), f"{site}t", {"width": max(width // 4, NARROWEST), "tail": "narrow"})


def _retagged(lines: list[str]) -> list[str]:
    """The lines with their loops under names of their own: the full tile keeps the first ones."""
    return [TAG.sub(r"/*@\1t*/", line) for line in lines]


def _renamed(source: Source, loop: Loop, name: str) -> str:
    """The loop's body with its variable called `name`."""
    text, at = "", loop.body.start_byte
    for n in walk(loop.body):
        if n.type == "identifier" and source.text(n) == loop.var:
            text += source.data[at : n.start_byte].decode() + name
            at = n.end_byte
    return TAG.sub(r"/*@\1t*/", text + source.data[at : loop.body.end_byte].decode())


EDIT = Edit(
    "lane_tile",
    phase=4,
    weight=8.0,
    summary="run neighbouring iterations of a loop side by side in vector lanes",
    apply=lane_tile,
    domains={"width": (4, 8, 16, 32, 64, 128), "tail": ("tiles", "narrow", "scalar")},
    first={"width": (32, 64, 128)},
    slot="tile",
)
