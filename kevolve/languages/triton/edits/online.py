"""Two passes over the same rows become one: by rewrites that have a name in the literature."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from kevolve.languages.triton.edits.edit import Edit, Parameters
from kevolve.languages.triton.edits.rewriting import (
    Kernel,
    bodies,
    expression,
    range_of,
    replaced,
    resolved,
    statements,
)
from kevolve.languages.triton.edits.source import Source


def _online_softmax(source: Source, site: str, parameters: Parameters) -> str | None:
    """Maximum and sum of exponentials in one pass (Milakov and Gimelshein, 2018): sums so far shrink as maxima grow.

    Applies to a loop of `m = tl.maximum(m, x)`, a reduction `l = tl.max(m, axis)`, and a loop of `s += tl.exp(x - l)`.
    """
    kernel = Kernel.of(source, site)
    if kernel is None:
        return None
    for body, first, second in _neighbours(kernel):
        found = _softmax_passes(body, first, second)
        if found is None:
            continue
        maxima, sums, term, block = found
        loop = body[first]
        assert isinstance(loop, ast.For)
        loop.body[-1:] = statements(
            f"greater = tl.maximum({maxima}, {block})\n"
            f"before = tl.where({maxima} == greater, 1.0, tl.exp({maxima} - greater))\n"
            f"{sums} = {sums} * before + tl.where({block} == float('-inf'), 0.0, tl.exp({block} - greater))\n"
            f"{maxima} = greater"
        )
        between = body[first + 1 : second]
        begins = [node for node in between if _assigns(node, sums)]
        rescaled = f"{sums} = tl.where({maxima} == float('-inf'), {sums}, {sums} * tl.exp({maxima} - {term}))"
        rest = [node for node in between if node not in begins]
        body[first : second + 1] = [*begins, loop, *rest, *statements(rescaled)]
        return kernel.text()
    return None


def _softmax_passes(body: list[ast.stmt], first: int, second: int) -> tuple[str, str, str, str] | None:
    """The names of the maxima and of the sums, the maxima's reduction as it is subtracted, and the block."""
    one, two = body[first], body[second]
    assert isinstance(one, ast.For)
    assert isinstance(two, ast.For)
    last, sum_of = one.body[-1], two.body[-1]
    if not (isinstance(last, ast.Assign) and isinstance(sum_of, ast.AugAssign) and isinstance(sum_of.op, ast.Add)):
        return None
    maxima, sums = ast.unparse(last.targets[0]), ast.unparse(sum_of.target)
    greater, power = last.value, sum_of.value
    if not (_is_call(greater, "tl.maximum") and _is_call(power, "tl.exp")):
        return None
    exponent = power.args[0]  # type: ignore[attr-defined]
    if not (isinstance(exponent, ast.BinOp) and isinstance(exponent.op, ast.Sub)):
        return None
    left, block = greater.args  # type: ignore[attr-defined]
    if ast.unparse(left) != maxima or [ast.dump(node) for node in one.body[:-1]] != [
        ast.dump(node) for node in two.body[:-1]
    ]:
        return None
    term = ast.unparse(exponent.right)
    largest = next((node for node in body[first + 1 : second] if _is_reduction(node, "tl.max", maxima)), None)
    if largest is None or ast.dump(exponent.left) != ast.dump(block):
        return None
    name = ast.unparse(largest.targets[0])  # type: ignore[attr-defined]
    return (maxima, sums, term, ast.unparse(block)) if term.partition("[")[0] == name else None


def _one_pass_variance(source: Source, site: str, parameters: Parameters) -> str | None:
    """Sum and sum of squares in one pass, of values less the first one (shifted data, Chan, Golub and LeVeque, 1983).

    Applies to a loop of `s += x`, a mean `m = tl.sum(s) / count`, and a loop of `q += tl.where(mask, (x - m)^2, 0)`.
    """
    kernel = Kernel.of(source, site)
    if kernel is None:
        return None
    for body, first, second in _neighbours(kernel):
        found = _variance_passes(body, first, second)
        if found is not None:
            _make_one_pass(body, first, second, *found)
            return kernel.text()
    return None


def _make_one_pass(
    body: list[ast.stmt], first: int, second: int, sums: str, squares: str, mean: ast.Assign, mask: str
) -> None:
    loop, two = body[first], body[second]
    assert isinstance(loop, ast.For)
    assert isinstance(two, ast.For)
    name, (start, stop, _) = ast.unparse(mean.targets[0]), map(ast.unparse, range_of(loop) or ())
    address = next(node for node in ast.walk(loop) if _is_call(node, "tl.load")).args[0]  # type: ignore[attr-defined]
    pointer = ast.unparse(address.left) if isinstance(address, ast.BinOp) else ""
    shift = statements(f"shift = tl.load({pointer} + {start}, mask={start} < {stop}, other=0.0).to(tl.float32)")
    # The second pass's own words, with the shift in the mean's place: `centred` is what it calls the difference.
    again = replaced(two.body, lambda node: expression("shift") if _is_named(node, name) else None)
    centred = _difference(two, name)
    again[-1:-1] = statements(f"{sums} += tl.where({mask}, {centred}, 0.0)")
    begins = [node for node in body[first + 1 : second] if _assigns(node, squares)]
    rest = [node for node in body[first + 1 : second] if node not in begins]
    count = ast.unparse(mean.value.right)  # type: ignore[attr-defined]
    loop.body[:] = again
    shifted = statements(f"{name} = {ast.unparse(mean.value)}\nexcess = {count} * {name} * {name}\n{name} += shift")
    at = rest.index(mean)
    rest[at : at + 1] = shifted
    tail = replaced(
        body[second + 1 :],
        lambda node: (
            expression(f"tl.maximum({ast.unparse(node)} - excess, 0.0, propagate_nan=tl.PropagateNan.ALL)")
            if _is_call(node, "tl.sum") and _is_named(node.args[0], squares)  # type: ignore[attr-defined]
            else None
        ),
    )
    body[first:] = [*shift, *begins, loop, *rest, *tail]


def _variance_passes(body: list[ast.stmt], first: int, second: int) -> tuple[str, str, ast.Assign, str] | None:
    """The names of the sums and of the squares, the statement of the mean, and the mask of the squares."""
    one, two = body[first], body[second]
    assert isinstance(one, ast.For)
    assert isinstance(two, ast.For)
    total, square = one.body[-1], two.body[-1]
    if not (isinstance(total, ast.AugAssign) and isinstance(square, ast.AugAssign)):
        return None
    sums, squares = ast.unparse(total.target), ast.unparse(square.target)
    where = square.value
    if not (_is_call(where, "tl.where") and ast.unparse(where.args[2]) == "0.0"):  # type: ignore[attr-defined]
        return None
    mask, product, _ = where.args  # type: ignore[attr-defined]
    is_square = isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult)
    if not is_square or ast.dump(product.left) != ast.dump(product.right):
        return None
    for node in body[first + 1 : second]:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Div):
            is_sum = _is_call(node.value.left, "tl.sum") and _is_named(node.value.left.args[0], sums)  # type: ignore[attr-defined]
            difference = _difference(two, ast.unparse(node.targets[0]))
            if is_sum and difference == ast.unparse(product.left) and _loads_alike(one, two):
                return sums, squares, node, ast.unparse(mask)
    return None


def _difference(loop: ast.For, mean: str) -> str:
    """The name of what a loop takes `mean` from, or nothing."""
    for node in loop.body:
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub) and _is_named(value.right, mean):
            return ast.unparse(node.targets[0])  # type: ignore[attr-defined]
    return ""


def _loads_alike(one: ast.For, two: ast.For) -> bool:
    """Do both loops load the same, at an address that begins with a pointer?"""
    loads = [[node for node in ast.walk(loop) if _is_call(node, "tl.load")] for loop in (one, two)]
    if [len(found) for found in loads] != [1, 1]:
        return False
    address = loads[0][0].args[0]  # type: ignore[attr-defined]
    places = [resolved(found[0].args[0], {}) for found in loads]  # type: ignore[attr-defined]
    is_plain = isinstance(address, ast.BinOp) and isinstance(address.left, ast.Name)
    return is_plain and places[0] == places[1]


def _neighbours(kernel: Kernel) -> Iterator[tuple[list[ast.stmt], int, int]]:
    """Loops over the same range that follow each other, each without loops in it, and the statements they are among."""
    for body in bodies(kernel.function):
        loops = [(at, ast.unparse(ast.Tuple(given))) for at, node in enumerate(body) if (given := range_of(node))]
        for (one, text), (two, other) in pairwise(loops):
            if text == other and not any(isinstance(node, ast.For) for at in (one, two) for node in _inside(body[at])):
                yield body, one, two


def _inside(node: ast.stmt) -> list[ast.AST]:
    assert isinstance(node, ast.For)
    return [inner for statement in node.body for inner in ast.walk(statement)]


def _assigns(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name


def _is_call(node: ast.AST, function: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == function


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_reduction(node: ast.stmt, function: str, name: str) -> bool:
    return isinstance(node, ast.Assign) and _is_call(node.value, function) and _is_named(node.value.args[0], name)  # type: ignore[attr-defined]


EDITS = (
    Edit(
        name="online_softmax",
        phase=1,
        weight=1.0,
        summary="maxima and sums of exponentials in one pass",
        apply=_online_softmax,
        candidates=lambda source: list(source.kernels),
    ),
    Edit(
        name="one_pass_variance",
        phase=1,
        weight=1.5,
        summary="sums and sums of squares in one pass over shifted values",
        apply=_one_pass_variance,
        candidates=lambda source: list(source.kernels),
    ),
)
