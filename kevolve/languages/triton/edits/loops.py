"""How a kernel's loops are scheduled: pipelined, unrolled."""

from __future__ import annotations

import ast

from kevolve.languages.triton.edits.edit import Edit, Parameters, Value
from kevolve.languages.triton.edits.rewriting import Kernel, bodies, carried, expression, range_of, statements
from kevolve.languages.triton.edits.source import Source


def _scheduled(option: str, parameter: str, values: tuple[Value, ...], summary: str, name: str) -> Edit:
    def apply(source: Source, site: str, parameters: Parameters) -> str | None:
        loop = source.loops.get(site)
        if loop is None:
            return None
        keywords = [f"{k.arg}={ast.unparse(k.value)}" for k in loop.keywords if k.arg != option]
        arguments = [*map(ast.unparse, loop.args), *keywords, f"{option}={parameters[parameter]}"]
        return source.replaced(loop, f"tl.range({', '.join(arguments)})")

    return Edit(
        name=name,
        phase=4,
        weight=1.0,
        summary=summary,
        apply=apply,
        candidates=lambda source: list(source.loops),
        domains={parameter: values},
    )


def _backwards(source: Source, site: str, parameters: Parameters) -> str | None:
    """The last block first, which the caches still have, where no turn of the loop needs another's values."""
    wanted = source.loops.get(site)
    for name in source.kernels:
        kernel = Kernel.of(source, name)
        for body in bodies(kernel.function) if kernel is not None else ():
            for loop in body:
                given = range_of(loop)
                if given is None or wanted is None or not _is_same(loop, wanted):
                    continue
                assert kernel is not None
                assert isinstance(loop, ast.For)
                assert isinstance(loop.iter, ast.Call)
                if carried(loop):
                    return None
                start, stop, step = map(ast.unparse, given)
                target = ast.unparse(loop.target)
                count = f"({stop} - ({start}) + {step} - 1) // ({step})"
                again = f"{target} = {start} + ({count} - 1 - turn_{target}) * ({step})"
                loop.target = ast.Name(f"turn_{target}", ast.Store())
                loop.iter.args = [ast.Constant(0), expression(count), ast.Constant(1)]
                loop.body[:0] = statements(again)
                return kernel.text()
    return None


def _is_same(loop: ast.stmt, wanted: ast.Call) -> bool:
    assert isinstance(loop, ast.For)
    return (loop.iter.lineno, loop.iter.col_offset) == (wanted.lineno, wanted.col_offset)


EDITS = (
    Edit(
        name="backwards",
        phase=4,
        weight=0.5,
        summary="the last block first",
        apply=_backwards,
        candidates=lambda source: list(source.loops),
    ),
    _scheduled("num_stages", "count", (1, 2, 3, 4, 5, 6), "loads of this loop that run ahead", "pipeline"),
    _scheduled("loop_unroll_factor", "factor", (1, 2, 4, 8), "bodies of this loop in a row", "unroll"),
    _scheduled("flatten", "flag", (True, False), "this loop and the one in it as one", "flatten"),
)
