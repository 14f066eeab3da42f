"""A C++ program under edit: its text, its syntax tree, and its loops by names that survive edits.

While a program is being edited every loop carries its name in a comment before it, `/*@L2*/`: an edit
moves the comment with the loop, so that a later edit still finds it. `tag` puts the names there and
`finish` takes them away again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

TAG = re.compile(r"/\*@([A-Za-z0-9_]+)\*/")
LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
JUMPS = frozenset(
    """
    break_statement continue_statement return_statement goto_statement labeled_statement switch_statement
    throw_statement try_statement lambda_expression co_await_expression
    """.split()
)
Splice = tuple[int, int, str]


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cpp.language()))


def walk(node: Node) -> Iterator[Node]:
    """`node` and every named node below it, in source order."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(current.named_children))


@dataclass(frozen=True)
class Loop:
    """`for (type var = start; var < bound; var += step)` with a body in braces; nothing else is edited as a loop."""

    site: str
    node: Node
    body: Node
    type: str
    var: str
    start: str
    bound: str
    step: str

    @property
    def header(self) -> str:
        """The loop's head as canonical text: equal for loops over the same range."""
        update = f"{self.var}++" if self.step == "1" else f"{self.var} += {self.step}"
        return f"for ({self.type} {self.var} = {self.start}; {self.var} < {self.bound}; {update})"


class Source:
    """A tagged program and what edits ask about it. Offsets are in bytes of its UTF-8 text."""

    def __init__(self, text: str):
        self.data = text.encode()
        self.root = _parser().parse(self.data).root_node
        self.known_mentions: dict[int, frozenset[str]] = {}  # what dependence.py found out, by node
        self.known_effects: dict[int, Any] = {}

    @property
    def broken(self) -> bool:
        """True if the text is not C++ as far as the grammar can tell."""
        return self.root.has_error

    def text(self, node: Node) -> str:
        """The source of `node`."""
        return self.data[node.start_byte : node.end_byte].decode()

    def splice(self, splices: Iterable[Splice]) -> str:
        """The program with each (start, end, text) put in place; splices must not overlap."""
        pieces, at = [], 0
        for start, end, text in sorted(splices, key=lambda splice: splice[:2]):
            pieces += [self.data[at:start], text.encode()]
            at = end
        return b"".join([*pieces, self.data[at:]]).decode()

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """Names of the loops in the text, in source order."""
        return tuple(match.group(1) for match in TAG.finditer(self.data.decode()))

    def importance(self, site: str) -> float:
        """How likely a site is to matter: three for each loop inside it, one for itself."""
        loop = self.loop(site)
        return 1.0 + 3.0 * len(TAG.findall(self.text(loop.body))) if loop is not None else 1.0

    def loop(self, site: str) -> Loop | None:
        """The loop called `site`, or None if it is gone or is no plain counting loop."""
        tag = f"/*@{site}*/".encode()
        at = self.data.find(tag)
        if at < 0:
            return None
        found = self.root.descendant_for_byte_range(at, at + len(tag))
        node = found.next_named_sibling if found is not None and found.type == "comment" else None
        return _counting_loop(self, site, node) if node is not None and node.type == "for_statement" else None

    def site_of(self, node: Node) -> str | None:
        """The name of the loop at `node`, if it has one."""
        before = node.prev_named_sibling
        found = TAG.fullmatch(self.text(before)) if before is not None and before.type == "comment" else None
        return found.group(1) if found else None

    def span(self, loop: Loop) -> tuple[int, int]:
        """Where the loop lies, its name included."""
        before = loop.node.prev_named_sibling
        return (before.start_byte if before is not None else loop.node.start_byte), loop.node.end_byte

    def pragmas(self, loop: Loop) -> list[str]:
        """The pragmas that stand directly before the loop."""
        found, node = [], loop.node.prev_named_sibling
        while node is not None and node.type in ("comment", "preproc_call"):
            if node.type == "preproc_call":
                found.append(self.text(node).strip())
            elif not TAG.fullmatch(self.text(node)):
                break
            node = node.prev_named_sibling
        return found

    @cached_property
    def functions(self) -> dict[str, Node]:
        """Function definitions of the program by name."""
        found = {}
        for node in walk(self.root):
            if node.type == "function_definition":
                declarator = child(node, "declarator")
                name = child(declarator, "declarator") if declarator is not None else None
                if name is not None and name.type == "identifier":
                    found[self.text(name)] = node
        return found

    def function_of(self, node: Node) -> Node | None:
        """The function definition that `node` lies in."""
        current: Node | None = node
        while current is not None and current.type != "function_definition":
            current = current.parent
        return current

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """Every identifier in the program."""
        return frozenset(re.findall(r"[A-Za-z_]\w*", self.data.decode()))

    def fresh(self, name: str) -> str:
        """`name`, or the first of `name_2`, `name_3`, ... that the program does not use yet."""
        number, fresh = 1, name
        while fresh in self.identifiers:
            number += 1
            fresh = f"{name}_{number}"
        return fresh


def child(node: Node | None, field: str) -> Node | None:
    """The child in `field`, or None."""
    return node.child_by_field_name(field) if node is not None else None


def statements(block: Node) -> list[Node]:
    """What a compound statement holds, comments and pragmas included."""
    return list(block.named_children)


def bracketed(expression: str) -> str:
    """`expression` in brackets, unless it is a single word or number."""
    return expression if re.fullmatch(r"\w+", expression) else f"({expression})"


def inside_loop(node: Node) -> bool:
    """True if a loop of any kind encloses `node`."""
    parent = node.parent
    while parent is not None and parent.type not in LOOPS:
        parent = parent.parent
    return parent is not None


def _counting_loop(source: Source, site: str, node: Node) -> Loop | None:
    initial, condition, body = (child(node, field) for field in ("initializer", "condition", "body"))
    if initial is None or condition is None or body is None or body.type != "compound_statement":
        return None
    declarators = initial.children_by_field_name("declarator")
    kind = child(initial, "type")
    if initial.type != "declaration" or kind is None or len(declarators) != 1:
        return None
    name, start = child(declarators[0], "declarator"), child(declarators[0], "value")
    left, right = child(condition, "left"), child(condition, "right")
    operator = child(condition, "operator")
    if name is None or name.type != "identifier" or start is None or left is None or right is None or operator is None:
        return None
    var = source.text(name)
    step = _step(source, child(node, "update"), var)
    if step is None or source.text(operator) != "<" or source.text(left) != var:
        return None
    return Loop(site, node, body, source.text(kind), var, source.text(start), source.text(right), step)


def _step(source: Source, update: Node | None, var: str) -> str | None:
    if update is None:
        return None
    if update.type == "update_expression":
        return "1" if source.text(update).replace(" ", "") in (f"{var}++", f"++{var}") else None
    left, right = child(update, "left"), child(update, "right")
    if left is None or right is None or source.text(left) != var:
        return None
    operator = child(update, "operator")
    is_sum = operator is not None and source.text(operator) == "+="
    return source.text(right) if is_sum and right.type in ("number_literal", "identifier") else None


def tag(text: str) -> str:
    """`text` with every loop named L0, L1, ... in source order and every loop body in braces."""
    source = Source(text)
    splices: list[Splice] = []
    for number, node in enumerate(node for node in walk(source.root) if node.type == "for_statement"):
        splices.append((node.start_byte, node.start_byte, f"/*@L{number}*/"))
        body = child(node, "body")
        if body is not None and body.type != "compound_statement":
            splices += [(body.start_byte, body.start_byte, "{ "), (body.end_byte, body.end_byte, " }")]
    return source.splice(splices)


def finish(tagged: str) -> str:
    """The program as it is stored: names gone, lines indented by their depth in braces."""
    text = TAG.sub("", tagged)
    if 'R"' in text:  # a raw string may hold lines whose blanks matter
        return text
    lines, depth, parens = [], 0, 0
    for line in text.split("\n"):
        code = re.sub(r'//.*|/\*.*?\*/|"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'', "", line)
        stripped = line.strip()
        closing = len(code.strip()) - len(code.strip().lstrip("}"))
        is_free = parens > 0 or (line.startswith("#") and not line.startswith("#pragma"))
        lines.append(line.rstrip() if is_free or not stripped else "    " * max(depth - closing, 0) + stripped)
        depth += code.count("{") - code.count("}")
        parens += code.count("(") - code.count(")")
    return "\n".join(lines)
