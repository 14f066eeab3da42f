"""How a kernel's loops are scheduled: pipelined, unrolled."""

from __future__ import annotations

import ast

from kevolve.languages.triton.edits.edit import Edit, Parameters, Value
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
        phase=2,
        weight=1.0,
        summary=summary,
        apply=apply,
        candidates=lambda source: list(source.loops),
        domains={parameter: values},
    )


EDITS = (
    _scheduled("num_stages", "count", (1, 2, 3, 4, 5, 6), "loads of this loop that run ahead", "pipeline"),
    _scheduled("loop_unroll_factor", "factor", (1, 2, 4, 8), "bodies of this loop in a row", "unroll"),
)
