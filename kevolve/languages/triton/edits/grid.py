"""Which program does what: the order of a grid's axes, programs that go on to the next task, loops shared out."""

from __future__ import annotations

import ast

from kevolve.languages.triton.edits.edit import Edit, Parameters
from kevolve.languages.triton.edits.rewriting import (
    Kernel,
    Replacer,
    calls,
    carried,
    expression,
    range_of,
    statements,
)  # fmt: skip
from kevolve.languages.triton.edits.source import Source

_ORDERS = {"reversed": (2, 1, 0), "last_first": (2, 0, 1), "middle_first": (1, 0, 2)}
_MOST_AXES = 3


def _order(source: Source, site: str, parameters: Parameters) -> str | None:
    """One axis for all: programs that follow each other differ first in the axis that the order names first."""
    kernel = Kernel.of(source, site)
    if kernel is None or kernel.axes() < 2:
        return None
    count = kernel.axes()
    order = [axis for axis in _ORDERS[str(parameters["way"])] if axis < count]
    sizes = [_sizes(call, count) for call in kernel.launches]
    if not all(sizes):
        return None
    whole, names = expression("tl.program_id(0)"), [f"axis_{axis}" for axis in range(count)]
    _replace_ids(kernel, names)
    text, divisor = "", ""
    for axis in order[:-1]:
        text += f"{names[axis]} = {ast.unparse(whole)}{divisor} % {names[axis]}_size\n"
        divisor += f" // {names[axis]}_size"
        kernel.add_parameter(f"{names[axis]}_size", [expression(size[axis]) for size in sizes if size])
    text += f"{names[order[-1]]} = {ast.unparse(whole)}{divisor}\n"
    kernel.function.body[_first(kernel) : _first(kernel)] = statements(text)
    for call, size in zip(kernel.launches, sizes, strict=True):
        assert isinstance(call.func, ast.Subscript)
        assert size
        call.func.slice = expression(f"({' * '.join(f'({one})' for one in size)},)")
    return kernel.text()


def _persistent(source: Source, site: str, parameters: Parameters) -> str | None:
    """So many programs, each of which does one task after the other."""
    kernel = Kernel.of(source, site)
    if kernel is None or kernel.axes() != 1 or calls(kernel.function, "tl.num_programs"):
        return None
    sizes = [_sizes(call, 1) for call in kernel.launches]
    if not all(sizes) or any(isinstance(node, ast.Return) for node in ast.walk(kernel.function)):
        return None
    _replace_ids(kernel, ["task"])
    first = _first(kernel)
    loop = statements("for task in tl.range(tl.program_id(0), tasks, tl.num_programs(0)):\n    pass")[0]
    assert isinstance(loop, ast.For)
    loop.body = kernel.function.body[first:]
    kernel.function.body[first:] = [loop]
    kernel.add_parameter("tasks", [expression(size[0]) for size in sizes if size])
    for call, size in zip(kernel.launches, sizes, strict=True):
        assert isinstance(call.func, ast.Subscript)
        assert size
        call.func.slice = expression(f"(min({size[0]}, {parameters['programs']}),)")
    return kernel.text()


def _spread(source: Source, site: str, parameters: Parameters) -> str | None:
    """The turns of a kernel's loops shared out among several programs, where no turn needs another's values.

    All that the kernel stores must be stored in such loops: the rest is done by each of the programs.
    """
    kernel = Kernel.of(source, site)
    if kernel is None or not 0 < kernel.axes() < _MOST_AXES:
        return None
    axis, parts = kernel.axes(), int(parameters["parts"])
    loops = [node for node in kernel.function.body if range_of(node) is not None]
    stores = sum(len(calls(loop, "tl.store")) for loop in loops)
    if not loops or stores != len(calls(kernel.function, "tl.store")):
        return None
    sizes = [_sizes(call, axis) for call in kernel.launches]
    if not all(sizes) or any(carried(loop) for loop in loops if isinstance(loop, ast.For)):
        return None
    for loop in loops:
        given = range_of(loop)
        assert given is not None
        start, _, step = (ast.unparse(one) for one in given)
        given[0] = expression(f"{start} + tl.program_id({axis}) * ({step})")
        given[2] = expression(f"{parts} * ({step})")
    for call, size in zip(kernel.launches, sizes, strict=True):
        assert isinstance(call.func, ast.Subscript)
        assert size
        call.func.slice = expression(f"({', '.join(size)}, {parts})")
    return kernel.text()


def _sizes(call: ast.Call, count: int) -> list[str] | None:
    """The sizes of a launch's grid along its axes, as expressions; None if they cannot be told from the text."""
    assert isinstance(call.func, ast.Subscript)
    grid = call.func.slice
    if isinstance(grid, ast.Name):
        return [f"{grid.id}[{axis}]" for axis in range(count)]
    if isinstance(grid, ast.Tuple) and len(grid.elts) == count:
        return [ast.unparse(size) for size in grid.elts]
    return None


def _replace_ids(kernel: Kernel, names: list[str]) -> None:
    """The kernel with names for its program ids."""

    def change(node: ast.expr) -> ast.expr | None:
        is_id = isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.program_id"
        return ast.Name(names[int(ast.unparse(node.args[0]))], ast.Load()) if is_id else None  # type: ignore[attr-defined]

    Replacer(change).visit(kernel.function)


def _first(kernel: Kernel) -> int:
    """Where a kernel's statements begin: after its docstring."""
    return 1 if ast.get_docstring(kernel.function) is not None else 0


EDITS = (
    Edit(
        name="order",
        phase=1,
        weight=1.5,
        summary="which axis of the grid programs that follow each other differ in",
        apply=_order,
        candidates=lambda source: list(source.kernels),
        domains={"way": tuple(_ORDERS)},
    ),
    Edit(
        name="spread",
        phase=0,
        weight=1.0,
        summary="programs that share out the loops of one",
        apply=_spread,
        candidates=lambda source: list(source.kernels),
        domains={"parts": (2, 4, 8, 16, 32)},
    ),
    Edit(
        name="persistent",
        phase=2,
        weight=0.7,
        summary="programs that stay and do one task after the other",
        apply=_persistent,
        candidates=lambda source: list(source.kernels),
        domains={"programs": (132, 264, 396, 528, 792, 1056, 2112)},
    ),
)
