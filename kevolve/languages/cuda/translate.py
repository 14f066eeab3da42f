"""Translates what launches from CUDA C++ to Python that `host.py` runs, and to C++ whose types the compiler checks.

The function named like the operator and those that it calls are translated statement by statement. Everything that is
not on the lists here is refused with its line, and every name in the result is made here: `v0` is a variable, `c0` a
constant, `f0` a function, `k0` a kernel. So whatever the text is, the result can only compute and launch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tree_sitter import Node

from kevolve.languages.cuda.expressions import Expressions, Names, Refused
from kevolve.languages.cuda.source import (
    Splice,
    before_body,
    child,
    parameters,
    parsed,
    runs_on_device,
    spliced,
    text,
    walk,
)

_SKIPPED = ("comment", "static_assert_declaration", "empty_statement", ";")
_IN_PLACE = ("+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^=")


@dataclass(frozen=True)
class Translated:
    """A program. `always` are the kernels to build whatever is launched: those that no `if constexpr` leaves out."""

    python: str
    kernels: tuple[str, ...]
    always: tuple[str, ...]
    checked: str
    is_pointer: tuple[bool, ...]


def translated(source: str, entry: str) -> Translated:
    """The program whose launching function is `entry`. Raises Refused."""
    data = source.encode()
    root = parsed(data)
    try:
        return _Translation(data, root).of(entry)
    except RecursionError:
        raise Refused(root, "its expressions are nested too deeply") from None


@dataclass
class _Translation(Expressions):
    """One program under translation; what is found on the way is appended."""

    data: bytes
    root: Node
    splices: list[Splice] = field(default_factory=list)
    functions: dict[str, str] = field(default_factory=dict)  # Python's names by C++'s
    bodies: list[str] = field(default_factory=list)
    updates: list[list[str]] = field(default_factory=list)  # of the loops around, innermost last

    def __post_init__(self) -> None:
        self.begin(self.root)

    def of(self, entry: str) -> Translated:
        found = self.definitions.get(entry, [])
        if not found or runs_on_device(found[0]):
            raise Refused(self.root, f'there is no function extern "C" void {entry}(...) that launches the kernels')
        node = found[0]
        outer = node.parent
        if outer is None or outer.type != "linkage_specification" or len(found) != 1:
            raise Refused(node, f'{entry} has to be defined once, as extern "C" void {entry}(...)')
        start, end = outer.start_byte, node.start_byte
        self.splices.append((start, end, "static " + "\n" * self.data[start:end].count(b"\n")))
        name = self.function(entry, node)
        body = "\n".join([*self.constants_text, *self.bodies, f"entry = {name}"]) + "\n"
        is_pointer = tuple(
            child(one, "declarator") is not None and b"*" in (one.text or b"") for one in parameters(node)
        )
        kernels = tuple(self.kernels)
        always = tuple(name for name in kernels if name in self.always)
        return Translated(body, kernels, always, spliced(self.data, self.splices), is_pointer)

    # ------------------------------------------------------------------------------------------------- functions

    def called(self, name: str, node: Node) -> str:
        """Python's name of a function of the program. Raises Refused."""
        if name in self.functions:
            return self.functions[name]
        found = self.definitions.get(name, [])
        if not found:
            raise Refused(node, f"{name} cannot be called here; there is: {', '.join(self.offered)}, and launches")
        if runs_on_device(found[0]):
            raise Refused(node, f"{name} runs on the device only: launch a kernel, or write a plain function")
        if len(found) > 1 or (found[0].parent is not None and found[0].parent.type == "template_declaration"):
            raise Refused(node, f"{name} is called by what launches, so it may be no template and have no overloads")
        return self.function(name, found[0])

    def function(self, name: str, node: Node) -> str:
        """Translate a function definition; its name in Python."""
        if node.has_error:
            wrong = next((one for one in walk(node) if one.is_error or one.is_missing), node)
            raise Refused(wrong, f"`{text(wrong)[:60]}` is not understood in a function that launches")
        ours = self.functions[name] = f"f{len(self.functions)}"
        if b"__device__" not in before_body(node):  # for the compiler it is a function of the device that nobody calls
            self.splices.append((node.start_byte, node.start_byte, "__device__ "))
        kept, self.names = self.names, Names(self.names.count)
        kept_updates, self.updates = self.updates, []
        kept_depth, self.constexpr_depth = self.constexpr_depth, 0
        arguments: list[str] = []
        lines: list[str] = []
        for parameter in parameters(node):
            argument = self._parameter(parameter, lines)
            arguments.append(argument)
        body = child(node, "body")
        if body is None:
            raise Refused(node, f"{name} has no body")
        lines += self.block(body)
        made = [f"def {ours}({', '.join(arguments)}):", *_indented(lines or ["pass"])]
        self.names, self.updates, self.constexpr_depth = Names.after(kept, self.names), kept_updates, kept_depth
        self.bodies.append("\n".join(made))
        return ours

    def _parameter(self, node: Node, lines: list[str]) -> str:
        declarator, kind = child(node, "declarator"), child(node, "type")
        if node.type != "parameter_declaration" or declarator is None or kind is None:
            raise Refused(node, f"`{text(node)[:60]}`: a function that launches has plain parameters with names")
        name, is_pointer = self.declared(declarator)
        if is_pointer:
            made = self.names.new(name, node)
            lines.append(f"{made} = cast({made}, {self.size_of(text(kind), node)})")
            return made
        self.number_kind(kind)
        return self.names.new(name, node)

    # ------------------------------------------------------------------------------------------------ statements

    def block(self, node: Node) -> list[str]:
        """The statements of a block, or the one statement that stands for it; names end with it."""
        self.names.enter()
        inner = node.named_children if node.type == "compound_statement" else [node]
        lines = [line for one in inner for line in self.statement(one)]
        self.names.leave()
        return lines

    def statement(self, node: Node) -> list[str]:
        """One statement, in lines."""
        if node.type in _SKIPPED:
            return []
        handle = {
            "declaration": self._declaration, "expression_statement": self._expression_statement,
            "if_statement": self._if, "for_statement": self._for, "while_statement": self._while,
            "compound_statement": self.block, "return_statement": self._return, "break_statement": self._jump,
            "continue_statement": self._jump,
        }.get(node.type)  # fmt: skip
        if handle is None:
            raise Refused(
                node, f"`{text(node)[:60]}`: a function that launches has declarations, assignments, if, for and while"
            )
        return handle(node)

    def _declaration(self, node: Node) -> list[str]:
        kind = child(node, "type")
        if kind is None or any(text(one) in ("static", "extern", "thread_local") for one in node.named_children):
            raise Refused(node, f"`{text(node)[:60]}`: nothing outlives a call: no static variables")
        lines = []
        for declarator in node.children_by_field_name("declarator"):
            value: Node | None = None
            if declarator.type == "init_declarator":
                value = child(declarator, "value")
                declarator = child(declarator, "declarator") or declarator
            if declarator.type == "function_declarator":  # dim3 grid(x, y), where it could be either
                value, declarator = child(declarator, "parameters"), child(declarator, "declarator") or declarator
            name, is_pointer = self.declared(declarator)
            made = self.initial(kind, value, is_pointer, node)
            lines.append(f"{self.names.new(name, node)} = {made}")
        return lines

    def _expression_statement(self, node: Node) -> list[str]:
        inner = next((one for one in node.named_children if one.type != "comment"), None)
        return self._effect(inner) if inner is not None else []

    def _effect(self, node: Node) -> list[str]:
        """An assignment, an increment, a launch or a call."""
        if node.type == "assignment_expression":
            return [self._assignment(node)]
        if node.type == "update_expression":
            name = self._target(child(node, "argument"), node)
            return [f"{name} = {name} {'+' if '++' in text(node) else '-'} 1"]
        if node.type == "call_expression":
            launch = next((one for one in node.named_children if one.type == "kernel_call_syntax"), None)
            return [self._launch(node, launch)] if launch is not None else [self.expression(node)]
        raise Refused(node, f"`{text(node)[:60]}` has no effect that is allowed in a function that launches")

    def _target(self, target: Node | None, node: Node) -> str:
        if target is None or target.type != "identifier":
            raise Refused(node, f"`{text(node)[:60]}`: values may be assigned to plain variables only")
        return self.names.known(text(target), node)

    def _assignment(self, node: Node) -> str:
        name, right = self._target(child(node, "left"), node), child(node, "right")
        operator = text(child(node, "operator") or node)
        if right is None or operator not in ("=", *_IN_PLACE):
            raise Refused(node, f"`{text(node)[:60]}` is not allowed in a function that launches")
        value = self.expression(right)
        return f"{name} = {value if operator == '=' else self.operation(operator[:-1], name, value, node)}"

    def _launch(self, node: Node, launch: Node) -> str:
        function = child(node, "function")
        if function is None or function.type not in ("identifier", "template_function"):
            raise Refused(node, f"`{text(node)[:60]}`: launch a kernel by its name")
        what = [one for one in launch.named_children if one.type != "comment"]
        if not 2 <= len(what) <= 3:
            raise Refused(node, "a launch has a grid, a block and perhaps bytes of shared memory; there is one stream")
        kernel = " ".join(text(function).split())
        self.kernels.setdefault(kernel, f"k{len(self.kernels)}")
        if self.constexpr_depth == 0:
            self.always.add(kernel)
        # For the compiler it is a call with the kernel's own parameters.
        begin, end = launch.start_byte, launch.end_byte
        self.splices += [
            (function.start_byte, function.start_byte, "kevolve_launch("), (begin, begin + 3, ", "), (end - 3, end, ")")
        ]  # fmt: skip
        grid, block, *shared = map(self.expression, what)
        values = self.arguments(child(node, "arguments"))
        return f"{self.kernels[kernel]}({', '.join([grid, block, shared[0] if shared else '0', *values])})"

    def _if(self, node: Node) -> list[str]:
        condition, then, other = (child(node, name) for name in ("condition", "consequence", "alternative"))
        if condition is None or then is None:
            raise Refused(node, f"`{text(node)[:60]}` is not understood")
        is_constexpr = any(text(one) == "constexpr" for one in node.children)
        lines = [f"if {self.condition(condition)}:"]
        self.constexpr_depth += is_constexpr
        lines += _indented(self.block(then) or ["pass"])
        if other is not None:
            inner = [one for one in other.named_children if one.type != "comment"]
            lines += ["else:", *_indented([line for one in inner for line in self.block(one)] or ["pass"])]
        self.constexpr_depth -= is_constexpr
        return lines

    def _while(self, node: Node) -> list[str]:
        condition, body = child(node, "condition"), child(node, "body")
        if condition is None or body is None:
            raise Refused(node, f"`{text(node)[:60]}` is not understood")
        return [f"while {self.condition(condition)}:", *_indented(self._looped(body, []))]

    def _for(self, node: Node) -> list[str]:
        initial, condition, update, body = (child(node, n) for n in ("initializer", "condition", "update", "body"))
        if body is None:
            raise Refused(node, f"`{text(node)[:60]}` is not understood")
        self.names.enter()
        lines = []
        if initial is not None:
            lines += self.statement(initial) if initial.type == "declaration" else self._effect(initial)
        lines.append(f"while {self.expression(condition) if condition is not None else 'True'}:")
        lines += _indented(self._looped(body, self._effect(update) if update is not None else []))
        self.names.leave()
        return lines

    def _looped(self, body: Node, update: list[str]) -> list[str]:
        self.updates.append(update)
        lines = [*self.block(body), *update]
        self.updates.pop()
        return lines or ["pass"]

    def _jump(self, node: Node) -> list[str]:
        if not self.updates:
            raise Refused(node, f"`{text(node)}` stands in no loop")
        return ["break"] if node.type == "break_statement" else [*self.updates[-1], "continue"]

    def _return(self, node: Node) -> list[str]:
        value = next((one for one in node.named_children if one.type != "comment"), None)
        return [f"return {self.expression(value)}" if value is not None else "return"]


def _indented(lines: list[str]) -> list[str]:
    return [f" {line}" for line in lines]
