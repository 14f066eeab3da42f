"""How kernels compute addresses: in 32 bits within a block, and with the contract's guarantees told to the compiler."""

from __future__ import annotations

import ast

from kevolve.languages.triton.edits.edit import Edit, Parameters
from kevolve.languages.triton.edits.rewriting import Kernel, bodies, calls, expression, statements, terms
from kevolve.languages.triton.edits.source import Source


def _offset32(source: Source, site: str, parameters: Parameters) -> str | None:
    """Addresses as a pointer to a block's first number, in 64 bits, and distances from it, in 32.

    `values + (first + tl.arange(0, N))[:, None] * width` becomes `values + first * width + tl.arange(0, N)[:, None] *
    width`. In rows of 2^31 / N numbers and more, distances would not fit.
    """
    kernel = Kernel.of(source, site)
    if kernel is None:
        return None
    before = ast.dump(kernel.function)
    ranges, blocks = _ranges(kernel.function), _same(kernel.function, "[:, None]")
    for call in calls(kernel.function, "tl.load", "tl.store"):
        pointer, *rest = [part for sign, one in terms(call.args[0]) for part in _split(sign, one, blocks)]
        pieces = [piece for sign, one in rest for piece in _pieces(sign, one, ranges)]
        scalars = [_signed(sign, one) for sign, one in pieces if not _is_block(one, ranges)]
        distances = [_signed(sign, one) for sign, one in pieces if _is_block(one, ranges)]
        if scalars and distances and isinstance(pointer[1], ast.Name):
            inside = " ".join(distances).removeprefix("+ ")
            call.args[0] = expression(f"{pointer[1].id} {' '.join(scalars)} + ({inside})")
    return kernel.text() if ast.dump(kernel.function) != before else None


def _pieces(sign: int, node: ast.expr, ranges: dict[str, ast.expr]) -> list[tuple[int, ast.expr]]:
    """A term, or that of its block's first number and those of the distances."""
    parts = _split(sign, node, ranges)
    if len(parts) > 1:
        return parts
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and _is_column(node.left)):
        return [(sign, node)]
    assert isinstance(node.left, ast.Subscript)
    parts = [part for way, inner in terms(node.left.value, sign) for part in _split(way, inner, ranges)]
    blocks = [inner for _, inner in parts if _is_arange(inner)]
    scalars = [_signed(way, inner) for way, inner in parts if not _is_block(inner, ranges)]
    if len(blocks) != 1 or len(scalars) != len(parts) - 1 or not scalars:
        return [(sign, node)]
    width = ast.unparse(node.right)
    first = expression(f"({' '.join(scalars).removeprefix('+ ')}) * {width}")
    return [(1, first), (1, expression(f"{ast.unparse(blocks[0])}[:, None] * {width}"))]


def _signed(sign: int, node: ast.expr) -> str:
    return f"{'-' if sign < 0 else '+'} {ast.unparse(node)}"


def _is_block(node: ast.expr, ranges: dict[str, ast.expr]) -> bool:
    """Does a term have many values?"""
    text = ast.unparse(node)
    return "tl.arange" in text or "None" in text or (isinstance(node, ast.Name) and node.id in ranges)


def _ranges(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """What names stand for that are always the same sum with a range of numbers in it."""
    found = _same(function, "tl.arange")
    return {name: value for name, value in found.items() if any(_is_arange(inner) for _, inner in terms(value))}


def _same(function: ast.FunctionDef, what: str) -> dict[str, ast.expr]:
    """What names stand for that are always given the same value, with `what` in its text."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    alike = {name: values[0] for name, values in found.items() if len({ast.dump(value) for value in values}) == 1}
    return {name: value for name, value in alike.items() if what in ast.unparse(value)}


def _split(sign: int, node: ast.expr, ranges: dict[str, ast.expr]) -> list[tuple[int, ast.expr]]:
    if isinstance(node, ast.Name) and node.id in ranges:
        return list(terms(ranges[node.id], sign))
    return [(sign, node)]


def _is_column(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and ast.unparse(node).endswith("[:, None]")


def _is_arange(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.arange"


def _assume(source: Source, site: str, parameters: Parameters) -> str | None:
    """What is read of `offsets` is never negative, so widening it costs nothing: told where it is read."""
    kernel = Kernel.of(source, site)
    if kernel is None or "tl.assume" in ast.unparse(kernel.function):
        return None
    is_changed = False
    for body in bodies(kernel.function):
        for at in reversed(range(len(body))):
            node = body[at]
            if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("tl.load(offsets + "):
                name = ast.unparse(node.targets[0])
                body[at + 1 : at + 1] = statements(f"tl.assume({name} >= 0)")
                is_changed = True
    return kernel.text() if is_changed else None


EDITS = (
    Edit(
        name="offset32",
        phase=3,
        weight=1.0,
        summary="distances within a block in 32 bits",
        apply=_offset32,
        candidates=lambda source: list(source.kernels),
    ),
    Edit(
        name="assume",
        phase=3,
        weight=0.3,
        summary="offsets are known not to be negative",
        apply=_assume,
        candidates=lambda source: list(source.kernels),
    ),
)
