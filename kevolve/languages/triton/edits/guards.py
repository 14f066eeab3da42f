"""Whole blocks without masks: a loop becomes one over whole blocks and a last turn for what is left."""

from __future__ import annotations

import ast
import copy

from kevolve.languages.triton.edits.edit import Edit, Parameters
from kevolve.languages.triton.edits.rewriting import Kernel, bodies, expression, range_of, terms
from kevolve.languages.triton.edits.source import Source


def _guard(source: Source, site: str, parameters: Parameters) -> str | None:
    """Every loop of the kernel that masks the end of its range, in two: the first has no use for that mask."""
    kernel = Kernel.of(source, site)
    if kernel is None:
        return None
    is_changed = False
    for body in list(bodies(kernel.function)):
        for at in reversed(range(len(body))):
            loops = _two(body[at])
            if loops:
                body[at : at + 1] = loops
                is_changed = True
    return kernel.text() if is_changed else None


def _two(loop: ast.stmt) -> list[ast.stmt]:
    """The loop over whole blocks and the loop over the rest; nothing if no mask falls away."""
    given = range_of(loop)
    if given is None:
        return []
    assert isinstance(loop, ast.For)
    start, stop, step = map(ast.unparse, given)
    whole, rest = copy.deepcopy(loop), copy.deepcopy(loop)
    unmasked = _Unmasked(ast.unparse(loop.target), stop, step)
    whole.body = [node for inner in whole.body if isinstance(node := unmasked.visit(inner), ast.stmt)]
    if not unmasked.is_used:
        return []
    end = f"{start} + ({stop} - ({start})) // ({step}) * ({step})"
    for one, at in ((whole, 1), (rest, 0)):
        assert isinstance(one.iter, ast.Call)
        one.iter.args[at] = expression(end)
    return [whole, rest]


class _Unmasked(ast.NodeTransformer):
    """Takes comparisons of a block's places with the range's end for true, and what follows from that out."""

    def __init__(self, target: str, stop: str, step: str):
        self.target, self.stop, self.step = target, stop, step
        self.names: dict[str, ast.expr] = {}
        self.true: set[str] = set()
        self.is_used = False

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        self.generic_visit(node)
        name = ast.unparse(node.targets[0])
        if _is_true(node.value):
            self.true.add(name)
            return None
        self.names[name] = node.value
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(True) if node.id in self.true and isinstance(node.ctx, ast.Load) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        is_end = isinstance(node.ops[0], ast.Lt) and ast.unparse(node.comparators[0]) == self.stop
        if is_end and self._is_block(node.left):
            self.is_used = True
            return ast.Constant(True)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        return node.value if _is_true(node.value) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.BitAnd):
            return node.right if _is_true(node.left) else node.left if _is_true(node.right) else node
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func) == "tl.where" and _is_true(node.args[0]):
            return node.args[1]
        if any(one.arg == "mask" and _is_true(one.value) for one in node.keywords):
            node.keywords = [one for one in node.keywords if one.arg not in ("mask", "other")]
        return node

    def _is_block(self, node: ast.expr) -> bool:
        """Is it the loop's variable and a range of `step` numbers?"""
        value = self.names.get(node.id, node) if isinstance(node, ast.Name) else node
        parts = {(sign, ast.unparse(inner)) for sign, inner in terms(value)}
        return parts == {(1, self.target), (1, f"tl.arange(0, {self.step})")}


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


EDITS = (
    Edit(
        name="guard",
        phase=1,
        weight=1.0,
        summary="whole blocks without masks, and a last turn for what is left",
        apply=_guard,
        candidates=lambda source: list(source.kernels),
    ),
)
