"""Several loops over the same rows become one read: a program that can hold all of them keeps them."""

from __future__ import annotations

import ast
import copy

from kevolve.languages.triton.edits.edit import Edit, Parameters
from kevolve.languages.triton.edits.rewriting import (
    Kernel,
    assigned,
    calls,
    carried,
    expression,
    keyword,
    range_of,
    read,
    renamed,
    replaced,
    resolved,
)  # fmt: skip
from kevolve.languages.triton.edits.source import Source

_MOST_HELD = 1 << 15  # numbers that a program can hold in registers: 64 a thread of 512
_OF_A_WARP = 2048  # numbers that 32 threads hold
_WARPS = (4, 16)


def _hold(source: Source, site: str, parameters: Parameters) -> str | None:
    """Where a range has no more than `rows` steps, do without the loops: one block of all, loaded once.

    Blocks get so narrow that a program can hold that, and its warps so many. Longer ranges are done as before.
    """
    kernel = Kernel.of(source, site)
    group = _group(kernel.function) if kernel is not None else None
    if kernel is None or group is None:
        return None
    first, last = group
    body = kernel.function.body
    loop = next(node for node in body[first:last] if range_of(node) is not None)
    given = range_of(loop)
    assert given is not None
    start, stop, step = given
    if not isinstance(step, ast.Name) or step.id not in kernel.constexprs():
        return None
    most = int(parameters["rows"])
    constants = _fitted(kernel, step.id, most)
    if constants is None:
        return None
    longer = body[first:last]
    tiers = [most >> shift for shift in reversed(range(int(parameters["tiers"])))]
    for tier in reversed(tiers):
        held = _without_loops(body[first:last], step.id, tier)
        held = renamed(held, {name: f"{name}_{tier}" for name in assigned(held)})
        test = expression(f"{ast.unparse(stop)} - {ast.unparse(start)} <= {tier}")
        longer = [ast.If(test, held, longer)]
    body[first:last] = longer
    return _with_constants(kernel, constants, most)


def _group(function: ast.FunctionDef) -> tuple[int, int] | None:
    """From where to where a kernel's statements are loops over one range, twice at least, and what is between them.

    What comes before the first loop and depends on the size of its step belongs to it. Nothing of what is computed
    there may be used afterwards.
    """
    body = function.body
    ranges = [(at, ast.unparse(ast.Tuple(given))) for at, node in enumerate(body) if (given := range_of(node))]
    alike = [at for at, text in ranges if text == ranges[0][1]]
    if len(alike) < 2 or any(_has_options(body[at]) for at in alike):
        return None
    given = range_of(body[alike[0]])
    assert given is not None
    step = ast.unparse(given[2])
    first = alike[0]
    while first > 0 and step in read([body[first - 1]]):
        first -= 1
    last = alike[-1] + 1
    inside, later = assigned(body[first:last]), body[last:]
    known: set[str] = set()
    for node in later:
        free = read([node]) - _bound_in(node)
        if free & inside - known:
            return None
        known |= assigned([node])
    return first, last


def _has_options(loop: ast.stmt) -> bool:
    return isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and bool(loop.iter.keywords)


def _bound_in(node: ast.stmt) -> set[str]:
    """Names that a loop gives a value to before it reads them."""
    if not isinstance(node, ast.For):
        return set()
    return (assigned(node.body) | assigned([node.target])) - carried(node)


def _without_loops(nodes: list[ast.stmt], step: str, rows: int) -> list[ast.stmt]:
    """The statements with the loops done in one turn of `rows`, and what was loaded once not loaded again."""
    flat: list[ast.stmt] = []
    loaded: dict[tuple[str, str], tuple[str, str]] = {}
    for node in nodes:
        given = range_of(node)
        if given is None:
            flat.append(copy.deepcopy(node))
            continue
        assert isinstance(node, ast.For)
        begin = ast.Assign([copy.deepcopy(node.target)], copy.deepcopy(given[0]))
        flat += [begin, *_reusing(node, loaded)]
    number = ast.Constant(rows)
    return replaced(flat, lambda node: number if isinstance(node, ast.Name) and node.id == step else None)


def _reusing(loop: ast.For, loaded: dict[tuple[str, str], tuple[str, str]]) -> list[ast.stmt]:
    """The loop's body, where a load of what is in `loaded` takes that; what else it loads is added.

    `loaded` has for an address and a mask the name of the block and what it has where the mask is off.
    """
    values: dict[str, ast.expr] = {}
    found: list[ast.stmt] = []
    for node in loop.body:
        node = copy.deepcopy(node)
        for load in calls(node, "tl.load"):
            mask = keyword(load, "mask")
            text = resolved(mask, values) if mask is not None else ""
            place = (resolved(load.args[0], values), text)
            other = keyword(load, "other")
            filling = ast.unparse(other) if other is not None else ""
            if place not in loaded:
                name = f"held_{len(loaded)}"
                found.append(ast.Assign([ast.Name(name, ast.Store())], copy.deepcopy(load)))
                loaded[place] = (name, filling)
            name, before = loaded[place]
            is_alike = filling == before or mask is None or _stores_only(loop, text, values)
            again = name if is_alike else f"tl.where({ast.unparse(mask)}, {name}, {filling or 0.0})"  # type: ignore[arg-type]
            same = ast.dump(load)
            node = replaced([node], lambda one: expression(again) if ast.dump(one) == same else None)[0]  # noqa: B023
        found.append(node)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            values[node.targets[0].id] = node.value
    return found


def _stores_only(loop: ast.For, mask: str, values: dict[str, ast.expr]) -> bool:
    """Does the loop only store, element by element, and only where `mask` is on? Then what is elsewhere is nobody's."""
    if carried(loop) or calls(loop, "tl.sum", "tl.max", "tl.min", "tl.dot"):
        return False
    stored = [keyword(store, "mask") for store in calls(loop, "tl.store")]
    return all(one is not None and resolved(one, values) == mask for one in stored)


def _fitted(kernel: Kernel, step: str, rows: int) -> dict[str, int] | None:
    """What the constants of the other axes become so that a program can hold `rows`; None if it cannot."""
    constants = kernel.source.constants
    if not kernel.constant(step):
        return None
    sizes = {name for call in calls(kernel.function, "tl.arange") for name in read([call])} - {step}
    others = [constant for name in sizes & set(kernel.constexprs()) if (constant := kernel.constant(name))]
    if len(others) > 1:
        return None
    room = _MOST_HELD // 2 // rows if others else _MOST_HELD // rows
    if room < (8 if others else 1):
        return None
    return {name: min(int(str(constants[name].value)), room) for name in others}


def _with_constants(kernel: Kernel, constants: dict[str, int], rows: int) -> str:
    """The program with other constants, and as many warps for the kernel as hold its block."""
    elements = rows * max(constants.values(), default=1)
    for call in kernel.launches:
        call.keywords = [one for one in call.keywords if one.arg != "num_warps"]
        warps = min(max(elements // _OF_A_WARP, _WARPS[0]), _WARPS[1])
        call.keywords.append(ast.keyword("num_warps", ast.Constant(warps)))
    source = Source(kernel.text())
    for name, value in constants.items():
        source = Source(source.replaced(source.constants[name], str(value)))
    return source.text


EDITS = (
    Edit(
        name="hold",
        phase=0,
        weight=2.0,
        summary="rows that a program holds at once instead of reading them again",
        apply=_hold,
        candidates=lambda source: list(source.kernels),
        domains={
            "rows": (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768),
            "tiers": (1, 2, 3),
        },
        first={"rows": (256, 512, 1024, 4096, 8192, 16384)},
    ),
)
