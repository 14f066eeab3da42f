"""What a piece of a program reads and writes, and whether a loop's iterations get in each other's way.

These are judgements good enough to propose an edit, not proofs: that segments of a jagged tensor do not
overlap cannot be seen in the text. The judge has the last word on every program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tree_sitter import Node

from kevolve.languages.cpp.edits.source import JUMPS, Loop, Source, child, walk

# Calls that only compute a value from their arguments. Functions defined in the program count too.
PURE_CALLS = frozenset(
    name + suffix
    for name in """
        exp exp2 expm1 log log2 log10 log1p sqrt tanh erf erfc pow fabs abs fmax fmin max min fma floor ceil rint trunc
        nearbyint fmod sin cos tan asin acos atan atan2 sinh cosh hypot
    """.split()
    for suffix in ("", "f")
) | {"isnan", "isinf", "isfinite", "__builtin_expect", "__builtin_prefetch", "static_cast", "reinterpret_cast"}
# Calls that move whole blocks, and how many of their first arguments are addresses: where to, where from.
BLOCK_CALLS = {"memcpy": 2, "memset": 1, "stream_copy": 2, "stream_zero": 1}


@dataclass
class Effects:
    """What happens inside a piece of a program. `opaque` names the first thing we cannot reason about."""

    declared: set[str] = field(default_factory=set)
    arrays: set[str] = field(default_factory=set)  # the arrays among them: memory of their own, unlike pointers
    written: set[str] = field(default_factory=set)  # scalars assigned to
    stores: list[tuple[str, Node]] = field(default_factory=list)  # base pointer, the subscript assigned to
    loads: list[tuple[str, Node]] = field(default_factory=list)
    mentions: set[str] = field(default_factory=set)
    opaque: str = ""

    @property
    def outer_writes(self) -> set[str]:
        """Scalars written here that live outside."""
        return self.written - self.declared


def mentions(source: Source, node: Node | None) -> frozenset[str]:
    """Identifiers that occur in `node`."""
    if node is None:
        return frozenset()
    if node.id not in source.known_mentions:
        names = (source.text(n) for n in walk(node) if n.type == "identifier")
        source.known_mentions[node.id] = frozenset(names)
    return source.known_mentions[node.id]


def declared_names(source: Source, declaration: Node) -> list[str]:
    """Names that a declaration introduces."""
    return [
        name for name in (declared_name(source, d) for d in declaration.children_by_field_name("declarator")) if name
    ]


def declared_name(source: Source, declarator: Node | None) -> str | None:
    """The name inside a declarator, through pointers, arrays and initialisers."""
    while declarator is not None and declarator.type != "identifier":
        inner = child(declarator, "declarator")
        if inner is None and declarator.type == "reference_declarator":
            inner = declarator.named_children[-1]
        declarator = inner
    return source.text(declarator) if declarator is not None else None


def subscript(source: Source, node: Node) -> tuple[str, str] | None:
    """(base, index) texts of `base[index]` with a plain name as base."""
    base, indices = child(node, "argument"), child(node, "indices")
    if base is None or base.type != "identifier" or indices is None or len(indices.named_children) != 1:
        return None
    return source.text(base), source.text(indices.named_children[0])


def effects(source: Source, node: Node) -> Effects:
    """What `node` and everything below it does. The answer is shared: do not change it."""
    if node.id not in source.known_effects:
        source.known_effects[node.id] = _effects(source, node)
    found: Effects = source.known_effects[node.id]
    return found


def _effects(source: Source, node: Node) -> Effects:
    found = Effects()
    targets: set[int] = set()
    blocks: set[int] = set()  # addresses handed to calls that move whole blocks
    for n in walk(node):
        if n.type in JUMPS or (n.type == "preproc_call" and not _is_hint(source.text(n))):
            found.opaque = found.opaque or n.type
        elif n.type == "identifier":
            found.mentions.add(source.text(n))
        elif n.type == "declaration":
            found.declared.update(declared_names(source, n))
            arrays = (d for d in walk(n) if d.type == "array_declarator")
            found.arrays.update(name for d in arrays if (name := declared_name(source, d)) is not None)
        elif n.type in ("assignment_expression", "update_expression"):
            _note_target(source, n, found, targets)
        elif n.type == "subscript_expression" and n.id not in targets:
            base = subscript(source, n)
            if base is not None:
                found.loads.append((base[0], n))
        elif n.type == "call_expression":
            if not _note_block(source, n, found, targets, blocks):
                _note_call(source, n, found)
        elif n.type == "pointer_expression" and source.text(n).startswith("&") and n.id not in blocks:
            found.opaque = found.opaque or "address"
    return found


def _is_hint(pragma: str) -> bool:
    """True for a pragma that changes how a loop is compiled and not what may be done with it."""
    words = pragma.split()[1:3]
    return words[:1] == ["GCC"] or words == ["omp", "simd"]


def _note_target(source: Source, node: Node, found: Effects, targets: set[int]) -> None:
    target = child(node, "left") or child(node, "argument")
    operator = child(node, "operator")
    if target is not None and target.type == "identifier":
        found.written.add(source.text(target))
    elif target is not None and target.type == "subscript_expression" and subscript(source, target):
        found.stores.append((source.text(target).split("[")[0].strip(), target))
        if operator is not None and source.text(operator) == "=":
            targets.add(target.id)
    else:
        found.opaque = found.opaque or "store"


def _note_block(source: Source, call: Node, found: Effects, targets: set[int], blocks: set[int]) -> bool:
    """Notes what a call like `memcpy(&to[i], &from[j], size)` stores and loads; False if it is no such call."""
    function, arguments = child(call, "function"), child(call, "arguments")
    name = source.text(function).removeprefix("std::") if function is not None else ""
    count = BLOCK_CALLS.get(name, 0)
    places = arguments.named_children[:count] if arguments is not None else []
    for number, place in enumerate(places):
        element = child(place, "argument")
        pair = subscript(source, element) if place.type == "pointer_expression" and element is not None else None
        if pair is None or element is None:
            return False
        blocks.add(place.id)
        if number == 0:
            found.stores.append((pair[0], element))
            targets.add(element.id)
    return bool(places)


def _note_call(source: Source, node: Node, found: Effects) -> None:
    function = child(node, "function")
    if function is not None and function.type == "qualified_identifier":
        function = child(function, "name")
    if function is not None and function.type == "template_function":
        function = child(function, "name")
    name = source.text(function) if function is not None else ""
    if name not in PURE_CALLS and name not in source.functions and name != "VALUE":
        found.opaque = found.opaque or f"call of {name}"


def varying(source: Source, loop: Loop) -> set[str]:
    """Names in the loop's body whose value can differ between its iterations."""
    changing = {loop.var}
    size = 0
    while len(changing) != size:
        size = len(changing)
        _spread(source, loop.body, changing, controlled=False)
    return changing


def _spread(source: Source, node: Node, changing: set[str], controlled: bool) -> None:
    """Adds to `changing` what gets a changing value, or a value under a changing condition, below `node`."""
    for n in node.named_children:
        inner = controlled
        if n.type in ("for_statement", "if_statement", "while_statement", "do_statement", "conditional_expression"):
            heads = [child(n, part) for part in ("initializer", "condition", "update")]
            inner = controlled or any(mentions(source, head) & changing for head in heads)
        if n.type == "init_declarator" and (inner or mentions(source, child(n, "value")) & changing):
            name = declared_name(source, n)
            changing |= {name} if name else set()
        elif n.type in ("assignment_expression", "update_expression"):
            target = child(n, "left") or child(n, "argument")
            if inner or mentions(source, n) & changing:
                name = source.text(target).split("[")[0].strip() if target is not None else ""
                changing |= {name}
        _spread(source, n, changing, inner)


def clashes(source: Source, *pieces: Effects, rows_of: str = "") -> bool:
    """True if a pointer is stored through at one index and used at another: order may matter then.

    With `rows_of`, the variable of a loop, indices that start with one product of it count as one: `i * n + j` and
    `i * n + k` lie in the same row.
    """
    stored = {base for found in pieces for base, _ in found.stores if base not in found.arrays}
    indices: dict[str, set[str]] = {}
    for base, node in (use for found in pieces for use in found.stores + found.loads):
        if base in stored:
            pair = subscript(source, node)
            row = leading_product(source, child(node, "indices")) if rows_of else None
            if pair and row is not None and rows_of in mentions(source, row):
                pair = (base, source.text(row))
            # A tiled loop names one element twice: d + lane in its tiles, d_tail in what is left over. A jammed one
            # names neighbours: t, t_plus1, ...
            text = re.sub(r" \+ lane(_\d+)?\b|_(tail|plus\d+)(_\d+)?\b", "", pair[1]) if pair else "?"
            indices.setdefault(base, set()).add("".join(text.split()))
    return any(len(texts) > 1 for texts in indices.values())


def leading_product(source: Source, indices: Node | None) -> Node | None:
    """The product that a sum of indices starts with."""
    node = indices.named_children[0] if indices is not None else None
    is_sum = False
    while node is not None and node.type == "binary_expression":
        operator, left = child(node, "operator"), child(node, "left")
        sign = source.text(operator) if operator is not None else ""
        if sign == "*":
            return node if is_sum else None
        if sign != "+":
            return None
        node, is_sum = left, True
    return None


def independent(source: Source, loop: Loop) -> bool:
    """True if the loop's iterations seem free to run in any order, or at the same time."""
    found = effects(source, loop.body)
    if found.opaque or found.outer_writes or loop.var in found.written:
        return False
    if clashes(source, found, rows_of=loop.var):
        return False
    changing = varying(source, loop)
    places = [(base, mentions(source, child(node, "indices"))) for base, node in found.stores]
    return all(base in found.arrays or (names | _origin(source, loop, base)) & changing for base, names in places)


def _origin(source: Source, loop: Loop, pointer: str) -> frozenset[str]:
    """What the start of a pointer declared in the loop is computed from."""
    names: frozenset[str] = frozenset()
    for n in walk(loop.body):
        if n.type == "init_declarator" and declared_name(source, n) == pointer:
            names |= mentions(source, child(n, "value"))
    return names


def has_loop(node: Node) -> bool:
    """True if a loop lies below `node` (or `node` is one)."""
    return any(n.type in ("for_statement", "while_statement", "do_statement", "for_range_loop") for n in walk(node))


@dataclass(frozen=True)
class Accumulator:
    """A scalar that a loop folds a value into: `name += value`, or a running maximum or minimum."""

    name: str
    kind: str  # + | max | min
    node: Node  # the assignment


def accumulators(source: Source, loop: Loop) -> list[Accumulator] | None:
    """Every outer scalar that the loop writes, if each is folded exactly once and used nowhere else in the loop."""
    found = effects(source, loop.body)
    folds = []
    for n in walk(loop.body):
        target = child(n, "left") if n.type == "assignment_expression" else None
        if target is not None and source.text(target) in found.outer_writes:
            folds.append(fold_of(source, n))
    names = [fold.name for fold in folds if fold is not None]
    if len(names) != len(folds) or sorted(names) != sorted(found.outer_writes):
        return None
    for fold in folds:
        uses = [
            n for n in walk(loop.body) if n.type == "identifier" and fold is not None and source.text(n) == fold.name
        ]
        if fold is not None and any(not fold.node.start_byte <= n.start_byte < fold.node.end_byte for n in uses):
            return None
    return [fold for fold in folds if fold is not None]


def fold_of(source: Source, assignment: Node) -> Accumulator | None:
    """`assignment` as a fold, if it is one."""
    left, right, operator = (child(assignment, part) for part in ("left", "right", "operator"))
    if left is None or right is None or operator is None:
        return None
    name = source.text(left)
    if source.text(operator) == "+=":
        return Accumulator(name, "+", assignment) if name not in mentions(source, right) else None
    if source.text(operator) != "=":
        return None
    if right.type == "call_expression":
        callee = source.text(right).split("(")[0].replace("std::", "")
        arguments = [source.text(n) for n in (child(right, "arguments") or right).named_children]
        is_extreme = callee in ("fmaxf", "fmax", "max", "fminf", "fmin", "min") and arguments.count(name) == 1
        return Accumulator(name, "max" if "max" in callee else "min", assignment) if is_extreme else None
    return _conditional_fold(source, name, assignment, right)


def _conditional_fold(source: Source, name: str, assignment: Node, right: Node) -> Accumulator | None:
    """`name = value > name ? value : name` and its three mirror images."""
    if right.type != "conditional_expression":
        return None
    condition, yes, no = (child(right, part) for part in ("condition", "consequence", "alternative"))
    if condition is not None and condition.type == "parenthesized_expression":
        condition = condition.named_children[0]
    operator = child(condition, "operator")
    if condition is None or operator is None or yes is None or no is None or source.text(no) != name:
        return None
    left, other = child(condition, "left"), child(condition, "right")
    if left is None or other is None or name in mentions(source, yes):
        return None
    sides, sign = (source.text(left), source.text(other)), source.text(operator)
    if sides == (source.text(yes), name) and sign in "<>":
        return Accumulator(name, "max" if sign == ">" else "min", assignment)
    if sides == (name, source.text(yes)) and sign in "<>":
        return Accumulator(name, "max" if sign == "<" else "min", assignment)
    return None
