"""The shape of a C++ program: threads, innermost loops, and the largest block of constant size."""

from __future__ import annotations

import re
from math import prod

from tree_sitter import Node

from kevolve.languages.cpp.edits.source import LOOPS, Source, walk
from kevolve.languages.language import Shape

_PARALLEL = re.compile(r"#pragma omp parallel\b(?:.*(collapse)\()?")
_CONSTANT = re.compile(r"constexpr \w+ (\w+) = (\d+);")
_STEP = re.compile(r"\w+ \+= (\w+)$")


def shape(source: str) -> Shape:
    """What the text tells; a text that is no C++ has no loops."""
    tree = Source(source)
    constants = {name: int(value) for name, value in _CONSTANT.findall(source)}
    nodes = list(walk(tree.root))
    loops = [node for node in nodes if node.type in LOOPS]
    around = {outer.id for loop in loops if (outer := _loop_around(loop)) is not None}
    blocks = [_elements(tree, node, constants) for node in nodes if node.type == "array_declarator"]
    steps = [_number(found[1], constants) for node in loops if (found := _STEP.search(_update(tree, node)))]
    found = _PARALLEL.search(source)
    parallel = "none" if found is None else found[1] or "rows"
    return Shape(parallel, len(loops) - len(around), Shape.rounded(max([*blocks, *steps], default=1)))


def _loop_around(loop: Node) -> Node | None:
    node = loop.parent
    while node is not None and node.type not in LOOPS:
        node = node.parent
    return node


def _update(tree: Source, loop: Node) -> str:
    update = loop.child_by_field_name("update")
    return tree.text(update) if update is not None else ""


def _elements(tree: Source, declarator: Node, constants: dict[str, int]) -> int:
    """Of a local array, all dimensions together; 1 where a size is no constant."""
    sizes = []
    node: Node | None = declarator
    while node is not None and node.type == "array_declarator":
        size = node.child_by_field_name("size")
        sizes.append(_number(tree.text(size), constants) if size is not None else 1)
        node = node.child_by_field_name("declarator")
    return prod(sizes)


def _number(text: str, constants: dict[str, int]) -> int:
    return int(text) if text.isdigit() else constants.get(text, 1)
