"""How loops are unrolled."""

from __future__ import annotations

import re

from kevolve.languages.cuda.edits.edit import Edit, Parameters
from kevolve.languages.cuda.edits.source import Source
from kevolve.languages.cuda.source import text


def _unroll(source: Source, site: str, parameters: Parameters) -> str | None:
    loop = source.loops.get(site)
    if loop is None:
        return None
    pragma = f"#pragma unroll {parameters['factor']}\n"
    before = loop.prev_named_sibling
    if before is not None and before.type == "preproc_call" and re.match(r"#pragma\s+unroll\b", text(before)):
        return source.replaced([(before.start_byte, before.end_byte, pragma)])
    start = source.data.rfind(b"\n", 0, loop.start_byte) + 1
    if source.data[start : loop.start_byte].strip():
        return source.replaced([(loop.start_byte, loop.start_byte, f"\n{pragma}")])
    return source.replaced([(start, start, pragma)])


EDITS = (
    Edit(
        name="unroll",
        phase=2,
        weight=2.0,
        summary="bodies of this loop in a row, whose loads can run ahead together",
        apply=_unroll,
        candidates=lambda source: list(source.loops),
        domains={"factor": (1, 2, 4, 8, 16)},
    ),
)
