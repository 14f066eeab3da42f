"""The syntax tree of a CUDA C++ text. Offsets are in bytes of its UTF-8 text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

Splice = tuple[int, int, str]
_DEVICE_ONLY = (b"__global__", b"__device__")


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cuda.language()))


def parsed(data: bytes) -> Node:
    """The root of the tree."""
    return _parser().parse(data).root_node


def walk(node: Node) -> Iterator[Node]:
    """`node` and every named node below it, in the order of the text."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(current.named_children))


def text(node: Node) -> str:
    """What stands there."""
    return (node.text or b"").decode()


def child(node: Node | None, field: str) -> Node | None:
    """The child in `field`, or None."""
    return node.child_by_field_name(field) if node is not None else None


def spliced(data: bytes, splices: Iterable[Splice]) -> str:
    """The text with each (start, end, new) put in place; they must not overlap."""
    pieces, at = [], 0
    for start, end, new in sorted(splices, key=lambda splice: splice[:2]):
        pieces += [data[at:start], new.encode()]
        at = end
    return b"".join([*pieces, data[at:]]).decode()


def function_name(definition: Node) -> str:
    """What a function definition defines; empty where that is no plain name."""
    declarator = child(definition, "declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = child(declarator, "declarator")
    name = child(declarator, "declarator")
    return text(name) if name is not None and name.type == "identifier" else ""


def parameters(definition: Node) -> list[Node]:
    """The parameters of a function definition."""
    declarator = child(definition, "declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = child(declarator, "declarator")
    found = child(declarator, "parameters")
    return [node for node in found.named_children if node.type != "comment"] if found is not None else []


def before_body(definition: Node) -> bytes:
    """A function's text up to its body."""
    body = child(definition, "body")
    whole = definition.text or b""
    return whole[: body.start_byte - definition.start_byte] if body is not None else whole


def runs_on_device(definition: Node) -> bool:
    """Is it a kernel, or a function of kernels alone?"""
    words = before_body(definition)
    return any(word in words for word in _DEVICE_ONLY) and b"__host__" not in words


def is_kernel(definition: Node) -> bool:
    """Is it launched?"""
    return b"__global__" in before_body(definition)
