"""What edits that rewrite whole functions share: kernels with their launches, names, and expressions compared."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kevolve.languages.triton.edits.source import Source


@dataclass
class Kernel:
    """A kernel and the functions that launch it, as copies to be changed; `text` is the program with the changes."""

    source: Source
    function: ast.FunctionDef
    hosts: dict[str, ast.FunctionDef]
    launches: list[ast.Call]

    @classmethod
    def of(cls, source: Source, name: str) -> Kernel | None:
        """The kernel called `name`, if something launches it."""
        if name not in source.kernels:
            return None
        hosts = {
            node.name: copy.deepcopy(node)
            for node in source.tree.body
            if isinstance(node, ast.FunctionDef) and not node.decorator_list
        }
        launches = [
            call
            for host in hosts.values()
            for call in ast.walk(host)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Subscript) and _is_name(call.func.value, name)
        ]
        return cls(source, copy.deepcopy(source.kernels[name]), hosts, launches) if launches else None

    def text(self) -> str:
        """The program with the kernel and its launches as they are now."""
        return with_functions(self.source, [self.function, *self.hosts.values()])

    def parameters(self) -> list[str]:
        return [argument.arg for argument in self.function.args.args]

    def constexprs(self) -> list[str]:
        """Parameters that are constants to the compiler."""
        return [a.arg for a in self.function.args.args if a.annotation and ast.unparse(a.annotation) == "tl.constexpr"]

    def constant(self, parameter: str) -> str:
        """The module's constant that every launch hands to `parameter`, or nothing."""
        at = self.parameters().index(parameter)
        given = {ast.unparse(call.args[at]) if len(call.args) > at else "" for call in self.launches}
        return given.pop() if len(given) == 1 and given <= set(self.source.constants) else ""

    def add_parameter(self, name: str, values: Sequence[ast.expr]) -> None:
        """One more integer that launches hand over, each its own value. The kernel is not specialised for it."""
        self.function.args.args.append(ast.arg(name))
        if self.function.args.defaults:
            self.function.args.defaults.append(ast.Constant(0))
        for call, value in zip(self.launches, values, strict=True):
            call.keywords.insert(0, ast.keyword(name, value))
        decorator = self.function.decorator_list[0]
        if not isinstance(decorator, ast.Call):
            decorator = ast.Call(decorator, [], [ast.keyword("do_not_specialize", ast.List([], ast.Load()))])
            self.function.decorator_list[0] = decorator
        names = decorator.keywords[0].value
        assert isinstance(names, ast.List)
        names.elts.append(ast.Constant(name))

    def axes(self) -> int:
        """How many axes of program instances it uses; 0 if they are not the first ones."""
        used = {ast.unparse(call.args[0]) for call in calls(self.function, "tl.program_id")}
        return len(used) if used == {str(axis) for axis in range(len(used))} else 0


def with_functions(source: Source, functions: Iterable[ast.FunctionDef]) -> str:
    """The program with functions replaced by those of the same name; those that are as before keep their text."""
    lines = source.text.splitlines(keepends=True)
    places = {node.name: node for node in source.tree.body if isinstance(node, ast.FunctionDef)}
    for function in sorted(functions, key=lambda function: places[function.name].lineno, reverse=True):
        before = places[function.name]
        if ast.dump(before) != ast.dump(function):
            first = min([before.lineno, *(decorator.lineno for decorator in before.decorator_list)])
            lines[first - 1 : before.end_lineno] = [ast.unparse(ast.fix_missing_locations(function)) + "\n"]
    return "".join(lines)


def bodies(node: ast.FunctionDef | ast.stmt) -> Iterator[list[ast.stmt]]:
    """A function's statements, and those of each branch and loop in it."""
    for name in ("body", "orelse"):
        inside = getattr(node, name, [])
        if inside:
            yield inside
        for statement in inside:
            yield from bodies(statement)


def calls(node: ast.AST, *functions: str) -> list[ast.Call]:
    """Calls of functions such as `tl.load`, in the order of the text."""
    found = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call) and ast.unparse(inner.func) in functions]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """An argument given by name."""
    return next((given.value for given in call.keywords if given.arg == name), None)


def expression(text: str) -> ast.expr:
    """The expression, positions left out."""
    return ast.parse(text, mode="eval").body


def statements(text: str) -> list[ast.stmt]:
    """The statements of a text."""
    return ast.parse(text).body


def assigned(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that statements give a value to."""
    return {
        inner.id
        for node in nodes
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    }


def read(nodes: Iterable[ast.AST]) -> set[str]:
    """Names whose value is used; an augmented assignment uses what it changes."""
    found = set()
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                found.add(inner.id)
            elif isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name):
                found.add(inner.target.id)
    return found


def carried(loop: ast.For) -> set[str]:
    """Names whose value one turn of a loop hands to the next: read in its body before it gives them a value."""
    known, found = assigned([loop.target]), set()
    inside = assigned(loop.body)
    for statement in loop.body:
        found |= (read([statement]) & inside) - known
        known |= assigned([statement])
    return found


class Replacer(ast.NodeTransformer):
    """Puts something else in the place of expressions that `change` has an answer for."""

    def __init__(self, change: Callable[[ast.expr], ast.expr | None]):
        self.change = change

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr):
            found = self.change(node)
            if found is not None:
                return found
        return self.generic_visit(node)


def replaced(nodes: Sequence[ast.stmt], change: Callable[[ast.expr], ast.expr | None]) -> list[ast.stmt]:
    """Copies of statements with expressions changed."""
    found = [Replacer(change).visit(copy.deepcopy(node)) for node in nodes]
    return [node for node in found if isinstance(node, ast.stmt)]


def renamed(nodes: Sequence[ast.stmt], names: Mapping[str, str]) -> list[ast.stmt]:
    """Copies of statements with other names."""
    return replaced(
        nodes,
        lambda node: ast.Name(names[node.id], node.ctx) if isinstance(node, ast.Name) and node.id in names else None,
    )


def terms(node: ast.expr, sign: int = 1) -> Iterator[tuple[int, ast.expr]]:
    """What a sum is made of, with signs."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from terms(node.left, sign)
        yield from terms(node.right, sign if isinstance(node.op, ast.Add) else -sign)
    else:
        yield sign, node


def range_of(loop: ast.stmt) -> list[ast.expr] | None:
    """Start, stop and step of `for ... in range(start, stop, step)`."""
    if not (isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and isinstance(loop.target, ast.Name)):
        return None
    is_range = ast.unparse(loop.iter.func) in ("range", "tl.range") and len(loop.iter.args) == 3
    return loop.iter.args if is_range else None


def resolved(node: ast.expr, values: Mapping[str, ast.expr]) -> str:
    """An expression's text with names replaced by what they stand for, and the parts of a sum in order."""
    parts = (f"{sign} * ({ast.unparse(part)})" for sign, part in terms(_substituted(node, values)))
    return " + ".join(sorted(parts))


def _substituted(node: ast.expr, values: Mapping[str, ast.expr]) -> ast.expr:
    def change(inner: ast.expr) -> ast.expr | None:
        return _substituted(values[inner.id], values) if isinstance(inner, ast.Name) and inner.id in values else None

    whole = Replacer(change).visit(copy.deepcopy(node))
    assert isinstance(whole, ast.expr)
    return whole


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
