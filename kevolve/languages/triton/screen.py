"""What can be said of a Triton program from its text: does it only launch kernels?

The functions that launch run in the process that is timed. So all of their syntax is on a list: names, numbers,
arithmetic, branches, loops, launches, and the few attributes and calls that `host.py` offers. What is not on the list
is refused with the line and what to write instead. Kernels only ever run on the device; of them the screen refuses what
talks to the compiler's own process or to the clock.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kevolve.languages.triton.host import BUILTINS, DTYPES

IMPORTS = {
    "import triton": ("triton", "triton"),
    "import triton.language as tl": ("triton.language", "tl"),
    "import torch": ("torch", "torch"),
}
_LIBDEVICE = "from triton.language.extra import libdevice"
_STATEMENTS = (
    ast.Assign, ast.AugAssign, ast.AnnAssign, ast.If, ast.For, ast.While, ast.Return, ast.Expr, ast.Pass, ast.Break,
    ast.Continue,
)  # fmt: skip
_EXPRESSIONS = (
    ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List,
    ast.Subscript, ast.Slice, ast.Call, ast.Attribute, ast.Lambda, ast.Starred,
)  # fmt: skip
_ARITHMETIC = (
    ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.operator, ast.unaryop, ast.expr_context
)  # fmt: skip
_ANNOTATIONS = ("tl.constexpr", "tl.int32", "tl.int64", "torch.Tensor", "int", "float", "bool", "None")
_OF_TENSORS = frozenset(["shape", "dtype", "device", "ndim", "numel", "size", "stride", "element_size", "dim"])
_OF_TRITON = frozenset(["cdiv", "next_power_of_2"])
_OF_TORCH = frozenset(["empty", "zeros", "empty_like", "zeros_like", *DTYPES])
_ALLOCATIONS = frozenset(["dtype", "device"])
# A kernel has no honest use for these: output of the compiler's process, assembly, the clock, and other modules.
_NOT_IN_KERNELS = frozenset(
    "device_print static_print device_assert inline_asm_elementwise extra core semantic inline_asm globaltimer".split()
)


class Refused(Exception):
    """The program has something that it may not have."""

    def __init__(self, node: ast.AST, what: str):
        super().__init__(f"line {getattr(node, 'lineno', 1)}: {what}")


def check(source: str, entry: str) -> str:
    """What is wrong with a program whose launching function is `entry`, in a sentence; empty if nothing is."""
    try:
        module = ast.parse(source)
        _check_module(module, entry)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except RecursionError:
        return "its expressions are nested too deeply"
    except Refused as refused:
        return str(refused)
    return ""


def _check_module(module: ast.Module, entry: str) -> None:
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    kernels = {node.name for node in functions if node.decorator_list}
    own = {node.name for node in functions} - kernels
    if entry not in own:
        raise Refused(module, f"there is no function {entry}(...) that launches the kernels")
    for node in module.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            if ast.unparse(node) not in (*IMPORTS, _LIBDEVICE):
                allowed = "; ".join((*IMPORTS, _LIBDEVICE))
                raise Refused(node, f"`{ast.unparse(node)}` is not allowed. A program may have: {allowed}")
        elif isinstance(node, ast.FunctionDef):
            (_check_kernel if node.name in kernels else _check_function)(node, own, kernels)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            _check_constant(node)
        else:
            raise Refused(node, "at module level there may be imports, functions and numbers with names")


def _check_constant(node: ast.Assign | ast.AnnAssign) -> None:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if any(not isinstance(target, ast.Name) for target in targets):
        raise Refused(node, "a constant needs one plain name")
    if isinstance(node, ast.AnnAssign):
        _check_annotation(node.annotation)
    for inner in ast.walk(node.value) if node.value else ():
        is_constexpr = ast.unparse(inner.func if isinstance(inner, ast.Call) else inner) == "tl.constexpr"
        if not is_constexpr and not isinstance(inner, _ARITHMETIC):
            raise Refused(node, "a constant is made of numbers, other constants and tl.constexpr(...)")
    _check_names(node)


def _check_names(node: ast.AST) -> None:
    """No name that leads into Python's own works."""
    for inner in ast.walk(node):
        name = getattr(inner, {ast.Name: "id", ast.arg: "arg", ast.FunctionDef: "name"}.get(type(inner), ""), "")
        if name.startswith("__") or (isinstance(inner, ast.Attribute) and inner.attr.startswith("_")):
            raise Refused(inner, f"`{ast.unparse(inner)[:60]}` has a name that begins with an underscore")


def _check_arguments(node: ast.FunctionDef) -> None:
    """Annotations and defaults are evaluated when the file is loaded: they may be types and numbers only."""
    arguments = node.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
        raise Refused(node, f"{node.name} may have plain arguments only")
    for default in arguments.defaults:
        if not isinstance(default, ast.Constant):
            raise Refused(node, f"defaults of {node.name}'s arguments may be numbers only")
    for annotation in (*(argument.annotation for argument in arguments.args), node.returns):
        if annotation is not None:
            _check_annotation(annotation)


def _check_annotation(node: ast.expr) -> None:
    if ast.unparse(node) not in _ANNOTATIONS:
        raise Refused(node, f"the annotation {ast.unparse(node)[:60]} is not one of {', '.join(_ANNOTATIONS)}")


def _check_kernel(node: ast.FunctionDef, own: set[str], kernels: set[str]) -> None:
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    if len(decorators) != 1 or not (decorators[0] == "triton.jit" or _is_jit_call(node.decorator_list[0])):
        raise Refused(
            node, "a kernel is decorated @triton.jit, or @triton.jit(do_not_specialize=[...]), and by nothing else"
        )
    _check_names(node)
    _check_arguments(node)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and inner.attr in _NOT_IN_KERNELS:
            raise Refused(inner, f"a kernel may not use {ast.unparse(inner)}")
        if isinstance(inner, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal | ast.Lambda | ast.With):
            raise Refused(inner, f"a kernel may not have {type(inner).__name__.lower()}")
        if isinstance(inner, ast.Call):
            _check_call_in_kernel(inner, own)


def _is_jit_call(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "triton.jit"
        and not node.args
        and [keyword.arg for keyword in node.keywords] == ["do_not_specialize"]
        and all(isinstance(inner, ast.List | ast.Constant | ast.Load) for inner in ast.walk(node.keywords[0].value))
    )


def _check_call_in_kernel(node: ast.Call, own: set[str]) -> None:
    """Triton evaluates some calls while it compiles: those may not be of Python's own functions."""
    if isinstance(node.func, ast.Name) and (
        node.func.id in own or node.func.id in ("eval", "exec", "open", "print", "getattr", "setattr", "vars", "type")
    ):
        raise Refused(node, f"a kernel may not call {node.func.id}")


def _check_function(node: ast.FunctionDef, own: set[str], kernels: set[str]) -> None:
    _check_names(node)
    _check_arguments(node)
    for statement in _statements(node.body):
        if not isinstance(statement, _STATEMENTS):
            raise Refused(
                statement,
                f"`{ast.unparse(statement)[:60]}`: a function that launches has assignments, if, for and while",
            )
        _check_targets(statement, own | kernels)
        for expression in _expressions(statement):
            _check_expression(expression, own, kernels)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for inner in ("body", "orelse"):
            yield from _statements(getattr(statement, inner, []))


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Every expression of a statement but not of the statements in it, annotations left out: they never run."""
    roots = {
        ast.Assign: ["value", "targets"], ast.AugAssign: ["target", "value"], ast.AnnAssign: ["target", "value"],
        ast.If: ["test"], ast.While: ["test"], ast.For: ["target", "iter"], ast.Return: ["value"], ast.Expr: ["value"],
    }.get(type(statement), [])  # fmt: skip
    for name in roots:
        found = getattr(statement, name)
        for root in found if isinstance(found, list) else [found]:
            if root is not None:
                yield from (inner for inner in ast.walk(root) if isinstance(inner, ast.expr))


def _check_targets(statement: ast.stmt, functions: set[str]) -> None:
    """Values go to plain names that are nobody else's: nothing outlives the call."""
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    for target in (t for t in targets if t is not None):
        for name in target.elts if isinstance(target, ast.Tuple) else [target]:
            if not isinstance(name, ast.Name):
                raise Refused(statement, f"`{ast.unparse(target)}`: values may be assigned to plain names only")
            if name.id in (*functions, "triton", "tl", "torch", "libdevice"):
                raise Refused(statement, f"{name.id} is taken: choose another name")


def _check_expression(node: ast.expr, own: set[str], kernels: set[str]) -> None:
    if not isinstance(node, _EXPRESSIONS):
        raise Refused(node, f"`{ast.unparse(node)[:60]}` is not allowed in a function that launches")
    if isinstance(node, ast.Constant) and not isinstance(node.value, int | float | str | bool | None):
        raise Refused(node, f"the constant {ast.unparse(node)} is not allowed")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift | ast.MatMult):
        raise Refused(node, f"`{ast.unparse(node)}`: only + - * / // % & | ^ >> are allowed")
    if isinstance(node, ast.Attribute):
        _check_attribute(node)
    if isinstance(node, ast.Call):
        _check_call(node, own, kernels)


def _check_attribute(node: ast.Attribute) -> None:
    root = node.value.id if isinstance(node.value, ast.Name) else ""
    allowed = {"triton": _OF_TRITON, "torch": _OF_TORCH, "tl": frozenset[str]()}.get(root, _OF_TENSORS)
    if node.attr not in allowed:
        raise Refused(node, f"{ast.unparse(node)[:60]} is not offered; there is: {', '.join(sorted(allowed))}")


def _check_call(node: ast.Call, own: set[str], kernels: set[str]) -> None:
    function = node.func
    named = [keyword.arg for keyword in node.keywords]
    if None in named:
        raise Refused(node, "** is not allowed: name the arguments")
    if isinstance(function, ast.Subscript):
        if not (isinstance(function.value, ast.Name) and function.value.id in kernels):
            raise Refused(node, f"`{ast.unparse(function)[:60]}` is no kernel of this program")
        return
    if isinstance(function, ast.Attribute):
        if not set(named) <= _ALLOCATIONS:
            raise Refused(node, f"`{ast.unparse(node)[:60]}`: only dtype and device can be given by name")
        return  # the attribute is on the list
    if not isinstance(function, ast.Name) or function.id not in (*BUILTINS, *own):
        raise Refused(
            node, f"`{ast.unparse(function)[:60]}` cannot be called here; there is: {', '.join(BUILTINS)}, and launches"
        )
