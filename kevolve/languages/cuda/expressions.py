"""Expressions, types and names of what launches: the part of `translate.py` that makes values."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any

from tree_sitter import Node

from kevolve.languages.cuda.source import child, function_name, parsed, text, walk

SIZES = {
    "char": 1, "bool": 1, "int8_t": 1, "uint8_t": 1, "short": 2, "int16_t": 2, "uint16_t": 2, "int": 4, "unsigned": 4,
    "int32_t": 4, "uint32_t": 4, "long": 8, "size_t": 8, "int64_t": 8, "uint64_t": 8, "uintptr_t": 8, "float": 4,
    "double": 8, "__half": 2, "half": 2, "__nv_bfloat16": 2, "__half2": 4, "half2": 4, "__nv_bfloat162": 4,
    "char2": 2, "char4": 4, "short2": 4, "short4": 8, "int2": 8, "int4": 16, "uint2": 8, "uint4": 16, "float2": 8,
    "float4": 16, "double2": 16, "void": 1,
}  # fmt: skip
_WHOLE = frozenset("char int8_t uint8_t short int16_t uint16_t int unsigned int32_t uint32_t long size_t int64_t uint64_t uintptr_t ptrdiff_t".split())  # fmt: skip  # noqa: E501
_REAL = frozenset(["float", "double"])
_SIGNS = re.compile(r"\b(const|constexpr|volatile|signed)\b|__restrict__|\brestrict\b")
_CASTS = ("static_cast", "reinterpret_cast", "const_cast")
_NUMBER = re.compile(r"(?P<digits>0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)[uUlL]*")
_REAL_NUMBER = re.compile(r"(?P<digits>\d*\.?\d+(?:[eE][+-]?\d+)?|\d+\.(?:[eE][+-]?\d+)?)[fFlL]?")
_PLAIN = {"+", "-", "&", "|", "^", "<", ">", "<=", ">=", "==", "!="}
_BY_NAME = {"*": "product", "/": "quotient", "%": "remainder", "<<": "shifted"}
_OFFERED = {"ceil_div": 2, "min": 2, "max": 2, "is_aligned": 2, "zero": 2}


class Refused(Exception):
    """The program has something that it may not have, or that is not understood."""

    def __init__(self, node: Node, what: str):
        super().__init__(f"line {node.start_point[0] + 1}: {' '.join(what.split())}")


class Names:
    """The variables that are there, by block. A name stands for one variable at a time: none hides another."""

    def __init__(self, count: int = 0):
        self.blocks: list[dict[str, str]] = [{}]
        self.count = count

    @staticmethod
    def after(before: Names, inner: Names) -> Names:
        """`before`, with numbers that go on where `inner` ended."""
        before.count = inner.count
        return before

    def enter(self) -> None:
        self.blocks.append({})

    def leave(self) -> None:
        self.blocks.pop()

    def get(self, name: str) -> str | None:
        return next((block[name] for block in reversed(self.blocks) if name in block), None)

    def new(self, name: str, node: Node) -> str:
        if self.get(name) is not None:
            raise Refused(node, f"there is a variable {name} already: choose another name")
        self.blocks[-1][name] = f"v{self.count}"
        self.count += 1
        return self.blocks[-1][name]

    def known(self, name: str, node: Node) -> str:
        found = self.get(name)
        if found is None:
            raise Refused(node, f"there is no variable {name} here")
        return found


class Expressions(ABC):
    """Values. `called` is the translation's: the name in Python of a function of the program."""

    offered = (*_OFFERED, "workspace<T>", "zeroed_workspace<T>", "dim3", "sizeof")

    def begin(self, root: Node) -> None:
        """Note what the file defines."""
        self.names = Names()
        self.kernels: dict[str, str] = {}
        self.always: set[str] = set()
        self.constexpr_depth = 0
        self.constants: dict[str, str] = {}
        self.constants_text: list[str] = []
        self.definitions: dict[str, list[Node]] = {}
        self.globals: dict[str, list[Node]] = {}
        for node in walk(root):
            if node.type == "function_definition":
                self.definitions.setdefault(function_name(node), []).append(node)
            elif node.type == "declaration" and _is_global(node):
                for one in node.children_by_field_name("declarator"):
                    name = child(one, "declarator") if one.type == "init_declarator" else one
                    if name is not None and name.type == "identifier":
                        self.globals.setdefault(text(name), []).append(node)

    @abstractmethod
    def called(self, name: str, node: Node) -> str:
        """Python's name of a function of the program. Raises Refused."""

    # ----------------------------------------------------------------------------------------------------- types

    def declared(self, declarator: Node) -> tuple[str, bool]:
        """The name that a declarator gives, and whether it is a pointer."""
        is_pointer = declarator.type == "pointer_declarator"
        inner: Node | None = declarator
        while inner is not None and inner.type == "pointer_declarator":
            inner = child(inner, "declarator")
        if inner is None or inner.type != "identifier":
            raise Refused(declarator, f"`{text(declarator)[:60]}`: variables are numbers, pointers and dim3")
        return text(inner), is_pointer

    def number_kind(self, kind: Node) -> str:
        """The function that converts to a type of numbers, empty for `auto`. Raises Refused."""
        name = _plain_type(text(kind))
        if name == "auto":
            return ""
        found = "whole" if name in _WHOLE else "real" if name in _REAL else "truth" if name == "bool" else None
        if found is None:
            raise Refused(kind, f"{name[:60]} is not a type that a function that launches can have; numbers, dim3, T *")
        return found

    def size_of(self, name: str, node: Node) -> str:
        """Bytes of a type, as Python. Raises Refused."""
        if name.rstrip().endswith("*"):
            return "8"
        name = _plain_type(name)
        if name in ("VALUE", "INDEX"):
            return f"size_{name}"
        if name not in SIZES:
            raise Refused(node, f"the size of {name[:60]} is not known here: count in bytes, workspace<char>(...)")
        return str(SIZES[name])

    def initial(self, kind: Node, value: Node | None, is_pointer: bool, node: Node) -> str:
        """What a variable begins as."""
        name = _plain_type(text(kind))
        if name == "dim3":
            return f"dim3({', '.join(self._listed(value))})"
        given = self._listed(value)
        if len(given) > 1:
            raise Refused(node, f"`{text(node)[:60]}` is not understood")
        if name == "auto" and given:
            return given[0]
        if is_pointer:
            return f"cast({given[0] if given else '0'}, {self.size_of(name, node)})"
        convert = self.number_kind(kind)
        return f"{convert}({given[0] if given else '0'})"

    def _listed(self, value: Node | None) -> list[str]:
        """An initial value, or those in brackets."""
        if value is None:
            return []
        if value.type == "parameter_list":  # `dim3 grid(x, y)` reads like the declaration of a function
            return self._read_again(value)
        if value.type in ("argument_list", "initializer_list"):
            return self.arguments(value)
        return [self.expression(value)]

    def _read_again(self, node: Node) -> list[str]:
        """Parameters as the arguments that they are."""
        call = parsed(f"auto again = dim3{text(node)};".encode())
        given = next((one for one in walk(call) if one.type == "argument_list"), None)
        if call.has_error or given is None:
            raise Refused(node, f"`{text(node)[:60]}` is not understood: write dim3 name = dim3(...)")
        try:
            return self.arguments(given)
        except Refused as refused:
            raise Refused(node, str(refused).partition(": ")[2]) from None

    # --------------------------------------------------------------------------------------------------- values

    def condition(self, node: Node) -> str:
        """What stands between the brackets of if and while."""
        inner = child(node, "value") or next((n for n in node.named_children if n.type != "comment"), None)
        if inner is None:
            raise Refused(node, "a condition is missing")
        return self.expression(inner)

    def arguments(self, node: Node | None) -> list[str]:
        """The arguments of a call."""
        return [self.expression(one) for one in (node.named_children if node else []) if one.type != "comment"]

    def expression(self, node: Node) -> str:
        """A value, as Python."""
        handle: Any = {
            "identifier": lambda n: self.identifier(text(n), n), "number_literal": _number, "true": lambda n: "True",
            "false": lambda n: "False", "null": lambda n: "0", "parenthesized_expression": self.condition,
            "binary_expression": self._binary, "unary_expression": self._unary, "call_expression": self._call,
            "conditional_expression": self._conditional, "sizeof_expression": self._sizeof,
            "cast_expression": self._cast, "field_expression": self._field, "compound_literal_expression": self._dim3,
        }.get(node.type)  # fmt: skip
        if handle is None:
            raise Refused(node, f"`{text(node)[:60]}` is not allowed in a function that launches")
        found: str = handle(node)
        return found

    def identifier(self, name: str, node: Node) -> str:
        """A variable, or a constant of the file."""
        if name == "nullptr":
            return "0"
        return self.names.get(name) or self.constants.get(name) or self._constant(name, node)

    def _constant(self, name: str, node: Node) -> str:
        """Translate a constant of the file at its first use."""
        found = self.globals.get(name, [])
        if len(found) != 1:
            raise Refused(node, f"{name} is not known here: declare it once, as constexpr int {name} = ...")
        declaration = found[0]
        kind = child(declaration, "type")
        words = [text(one) for one in declaration.named_children if one.type == "type_qualifier"]
        if kind is None or not {"const", "constexpr"} & set(words):
            raise Refused(node, f"{name} is no constant: declare it as constexpr int {name} = ...")
        self.globals[name] = []  # so that one that is made of itself is not known
        kept, self.names = self.names, Names(self.names.count)
        for one in declaration.children_by_field_name("declarator"):
            if one.type == "init_declarator" and text(child(one, "declarator") or one) == name:
                made = self.initial(kind, child(one, "value"), False, declaration)
                self.constants[name] = f"c{len(self.constants)}"
                self.constants_text.append(f"{self.constants[name]} = {made}")
        self.names = kept
        if name not in self.constants:
            raise Refused(node, f"{name} has no value")
        return self.constants[name]

    def operation(self, operator: str, left: str, right: str, node: Node) -> str:
        """Two values and an operator."""
        if operator in _BY_NAME:
            return f"{_BY_NAME[operator]}({left}, {right})"
        if operator in ("&&", "||"):
            return f"truth({left} {'and' if operator == '&&' else 'or'} {right})"
        if operator == ">>":
            return f"({left} >> {right})"
        if operator not in _PLAIN:
            raise Refused(node, f"the operator {operator} is not allowed in a function that launches")
        return f"({left} {operator} {right})"

    def _binary(self, node: Node) -> str:
        left, operator, right = (child(node, name) for name in ("left", "operator", "right"))
        if left is None or operator is None or right is None:
            raise Refused(node, f"`{text(node)[:60]}` is not understood")
        return self.operation(text(operator), self.expression(left), self.expression(right), node)

    def _unary(self, node: Node) -> str:
        operator, argument = child(node, "operator"), child(node, "argument")
        signs = {"-": "-", "+": "+", "~": "~", "!": "not "}
        if operator is None or argument is None or text(operator) not in signs:
            raise Refused(node, f"`{text(node)[:60]}` is not allowed in a function that launches")
        return f"({signs[text(operator)]}{self.expression(argument)})"

    def _conditional(self, node: Node) -> str:
        parts = [child(node, name) for name in ("condition", "consequence", "alternative")]
        given = [self.expression(part) for part in parts if part is not None]
        if len(given) != 3:
            raise Refused(node, f"`{text(node)[:60]}` is not understood")
        return f"({given[1]} if {given[0]} else {given[2]})"

    def _sizeof(self, node: Node) -> str:
        return self.size_of(text(node).removeprefix("sizeof").strip()[1:-1], node)

    def _cast(self, node: Node) -> str:
        kind, value = child(node, "type"), child(node, "value")
        if kind is None or value is None:
            raise Refused(node, f"`{text(node)[:60]}` is not understood")
        return self._converted(kind, self.expression(value))

    def _converted(self, kind: Node, value: str) -> str:
        words = text(kind).strip()
        if words.endswith("*"):
            return f"cast({value}, {self.size_of(words[:-1], kind)})"
        return f"{self.number_kind(kind)}({value})"

    def _field(self, node: Node) -> str:
        argument, name = child(node, "argument"), text(child(node, "field") or node)
        if argument is None or argument.type != "identifier" or name not in ("x", "y", "z"):
            raise Refused(node, f"`{text(node)[:60]}` is not allowed in a function that launches")
        return f"dim3({self.names.known(text(argument), node)})[{'xyz'.index(name)}]"

    def _dim3(self, node: Node) -> str:
        if text(child(node, "type") or node) != "dim3":
            raise Refused(node, f"`{text(node)[:60]}` is not allowed in a function that launches")
        return f"dim3({', '.join(self.arguments(child(node, 'value')))})"

    def _call(self, node: Node) -> str:
        function, given = child(node, "function"), self.arguments(child(node, "arguments"))
        if function is None or any(one.type == "kernel_call_syntax" for one in node.named_children):
            raise Refused(node, f"`{text(node)[:60]}`: a launch is a statement of its own")
        if function.type == "template_function":
            return self._template_call(node, function, given)
        name = text(function)
        if function.type == "primitive_type" or name in _WHOLE | _REAL:
            return self._converted(function, ", ".join(given))
        if name == "dim3" and len(given) <= 3:
            return f"dim3({', '.join(given)})"
        if function.type != "identifier":
            raise Refused(node, f"`{text(node)[:60]}` is not allowed in a function that launches")
        if name in _OFFERED and name not in self.definitions:
            if len(given) != _OFFERED[name]:
                raise Refused(node, f"{name} takes {_OFFERED[name]} arguments, {len(given)} were given")
            return f"{name}({', '.join(given)})"
        return f"{self.called(name, node)}({', '.join(given)})"

    def _template_call(self, node: Node, function: Node, given: list[str]) -> str:
        name = text(child(function, "name") or function)
        kinds = child(function, "arguments")
        if kinds is None or len(kinds.named_children) != 1 or len(given) != 1:
            raise Refused(node, f"`{text(node)[:60]}` is not understood")
        kind = kinds.named_children[0]
        if name in ("workspace", "zeroed_workspace"):
            return f"{name}({self.size_of(text(kind), node)}, {given[0]})"
        if name in _CASTS:
            return self._converted(kind, given[0])
        raise Refused(node, f"{name} cannot be called here; there is: {', '.join(self.offered)}, and launches")


def _is_global(node: Node) -> bool:
    above = node.parent
    while above is not None and above.type in ("linkage_specification", "declaration_list", "namespace_definition"):
        above = above.parent
    return above is not None and (above.type == "translation_unit" or above.type.startswith("preproc"))


def _plain_type(words: str) -> str:
    """A type's name without what does not change it here; `unsigned long long` is as wide as `long`."""
    kept = _SIGNS.sub(" ", words).split()
    if len(kept) > 1 and set(kept) <= {"unsigned", "long", "int", "short", "char"}:
        return next(word for word in ("long", "short", "char", "unsigned") if word in kept)
    return " ".join(kept)


def _number(node: Node) -> str:
    words = text(node).replace("'", "")
    sign = words[0] if words[0] in "+-" else ""
    words = words.removeprefix(sign)
    if whole := _NUMBER.fullmatch(words):
        digits = whole["digits"]
        base = 8 if digits[0] == "0" and digits.isdigit() and digits != "0" else 0
        try:
            return f"{sign}{int(digits, base)}"
        except ValueError:
            pass
    elif real := _REAL_NUMBER.fullmatch(words):
        return f"{sign}{float(real['digits'])!r}"
    raise Refused(node, f"{words[:60]} is not a number that is understood")
