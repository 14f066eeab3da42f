"""A CUDA C++ program under edit: its constants, kernels, loops, loads and stores by name, and how to change its text.

No edit adds or removes one of these, so a name that counts them (`load.2` is the third load of the file) finds the same
one after any other edit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from tree_sitter import Node

from kevolve.languages.cuda.source import (
    Splice,
    child,
    function_name,
    is_kernel,
    parameters,
    parsed,
    runs_on_device,
    spliced,
    text,
    walk,
)

T = TypeVar("T")
LOADS = ("__ldg", "__ldca", "__ldcg", "__ldcs", "__ldlu", "__ldcv")
STORES = ("__stwb", "__stcg", "__stcs", "__stwt")
_CONSTANT = re.compile(r"\s*(static\s+)?constexpr\s+(int|int64_t|unsigned|unsigned int)\b")
_HINTED = frozenset("VALUE INDEX float double int int32_t int64_t uint32_t uint64_t float2 float4 int4".split())
LOOPS = ("for_statement", "while_statement", "do_statement")


@dataclass(frozen=True)
class Access:
    """`pointer[index]` in a kernel, the whole of the load or store, and its type. `value` is what is stored."""

    element: Node
    whole: Node
    type: str
    value: Node | None = None


class Source:
    """The parsed text. `broken` if it is no CUDA C++ as far as the grammar can tell."""

    def __init__(self, text: str):
        self.text = text
        self.data = text.encode()
        self.root = parsed(self.data)
        self.broken = self.root.has_error

    def replaced(self, splices: Iterable[Splice]) -> str:
        """The program with each (start, end, text) put in place."""
        return spliced(self.data, splices)

    @cached_property
    def constants(self) -> Mapping[str, Node]:
        """Whole numbers with a name at the top of the file: `constexpr int TILE = 16;`."""
        found = {}
        for node in self.root.named_children:
            if node.type == "declaration" and _CONSTANT.match(text(node)):
                for one in node.children_by_field_name("declarator"):
                    name, value = child(one, "declarator"), child(one, "value")
                    if name is not None and value is not None and re.fullmatch(r"\d+", text(value)):
                        found[text(name)] = value
        return found

    @cached_property
    def kernels(self) -> Mapping[str, Node]:
        """What is launched."""
        return {function_name(node): node for node in self._functions if is_kernel(node)}

    @cached_property
    def _functions(self) -> list[Node]:
        return [node for node in walk(self.root) if node.type == "function_definition" and runs_on_device(node)]

    @cached_property
    def bounds(self) -> Mapping[str, Node]:
        """`__launch_bounds__(...)`, by kernel."""
        found = ((name, node) for name, kernel in self.kernels.items() for node in walk(kernel))
        return {name: node for name, node in found if node.type == "launch_bounds"}

    @cached_property
    def loops(self) -> Mapping[str, Node]:
        """`for` loops of the device, by `loop.0` and so on."""
        return _counted("loop", (node for one in self._functions for node in walk(one) if node.type == "for_statement"))

    @cached_property
    def loads(self) -> Mapping[str, Access]:
        """Elements that kernels read through their parameters, by `load.0` and so on."""
        return _counted("load", self._loads())

    @cached_property
    def stores(self) -> Mapping[str, Access]:
        """Elements that kernels write through their parameters, by `store.0` and so on."""
        return _counted("store", self._stores())

    def importance(self, site: str) -> float:
        """Loops that hold others come first, and what is in a loop before what is not."""
        loop = self.loops.get(site)
        if loop is not None:
            return 1.0 + 3.0 * sum(node.type in LOOPS for node in walk(loop) if node != loop)
        access = self.loads.get(site) or self.stores.get(site)
        return 3.0 if access is not None and _inside_loop(access.whole) else 1.0

    def _loads(self) -> Iterator[Access]:
        for kernel in self.kernels.values():
            pointers = _pointers(kernel, is_const=True)
            for node in walk(kernel):
                name = child(node, "argument") if node.type == "subscript_expression" else None
                if name is None or text(name) not in pointers:
                    continue
                call = _call_around(node, LOADS)
                if call is not None or not _is_addressed(node):
                    yield Access(node, call or node, pointers[text(name)])

    def _stores(self) -> Iterator[Access]:
        for kernel in self.kernels.values():
            pointers = _pointers(kernel, is_const=False)
            for node in walk(kernel):
                element, value = _stored(node)
                name = child(element, "argument")
                if element is not None and value is not None and name is not None and text(name) in pointers:
                    yield Access(element, node, pointers[text(name)], value)


def _pointers(kernel: Node, *, is_const: bool) -> dict[str, str]:
    """Parameters that point to numbers, with the numbers' type."""
    found = {}
    for parameter in parameters(kernel):
        kind, declarator = child(parameter, "type"), child(parameter, "declarator")
        if kind is None or declarator is None or declarator.type != "pointer_declarator":
            continue
        name = next((node for node in walk(declarator) if node.type == "identifier"), None)
        words = [text(node) for node in parameter.named_children if node.type == "type_qualifier"]
        if name is not None and text(kind) in _HINTED and ("const" in words) == is_const:
            found[text(name)] = text(kind)
    return found


def _is_addressed(node: Node) -> bool:
    above = node.parent
    return above is not None and above.type in ("pointer_expression", "update_expression")


def _call_around(element: Node, functions: tuple[str, ...]) -> Node | None:
    """The call `f(&element)` of one of these, if the element is in one."""
    address = element.parent
    arguments = address.parent if address is not None and address.type == "pointer_expression" else None
    call = arguments.parent if arguments is not None and arguments.type == "argument_list" else None
    return call if call is not None and text(child(call, "function") or call) in functions else None


def _stored(node: Node) -> tuple[Node | None, Node | None]:
    """(element, value) of `p[i] = value` or of `__stcs(&p[i], T(value))`."""
    if node.type == "assignment_expression":
        left, operator, right = (child(node, name) for name in ("left", "operator", "right"))
        if left is not None and left.type == "subscript_expression" and operator is not None and text(operator) == "=":
            return left, right
    if node.type == "call_expression" and text(child(node, "function") or node) in STORES:
        given = [one for one in (child(node, "arguments") or node).named_children if one.type != "comment"]
        element = child(given[0], "argument") if len(given) == 2 else None
        inner = child(given[1], "arguments") if len(given) == 2 else None
        values = inner.named_children if inner is not None else []
        if element is not None and element.type == "subscript_expression" and len(values) == 1:
            return element, values[0]
    return None, None


def _inside_loop(node: Node) -> bool:
    above = node.parent
    while above is not None and above.type not in LOOPS:
        above = above.parent
    return above is not None


def _counted(kind: str, found: Iterable[T]) -> dict[str, T]:
    return {f"{kind}.{number}": one for number, one in enumerate(found)}
