"""Sizes of blocks and tiles, and how many blocks share a multiprocessor."""

from __future__ import annotations

import math
import re

from kevolve.languages.cuda.edits.edit import Edit, Parameters
from kevolve.languages.cuda.edits.source import Source
from kevolve.languages.cuda.source import text

_MOST_THREADS = 1024  # of a block
_BOUNDS = re.compile(r"__launch_bounds__\s*\((?P<threads>[^,]*)(,.*)?\)", re.DOTALL)


def _resize(source: Source, site: str, parameters: Parameters) -> str | None:
    constant = source.constants.get(site)
    if constant is None or _threads(source, {site: int(parameters["size"])}) > _MOST_THREADS:
        return None
    return source.replaced([(constant.start_byte, constant.end_byte, str(parameters["size"]))])


def _threads(source: Source, changed: dict[str, int]) -> int:
    """The most threads that a kernel is bounded to, where that is a product of constants."""
    values = {name: int(text(node)) for name, node in source.constants.items()} | changed
    most = 1
    for node in source.bounds.values():
        found = _BOUNDS.search(text(node))
        factors = [word.strip() for word in found["threads"].split("*")] if found else []
        if factors and all(word.isdigit() or word in values for word in factors):
            most = max(most, math.prod(int(word) if word.isdigit() else values[word] for word in factors))
    return most


def _share(source: Source, site: str, parameters: Parameters) -> str | None:
    bounds = source.bounds.get(site)
    found = _BOUNDS.search(text(bounds)) if bounds is not None else None
    if bounds is None or found is None:
        return None
    new = f"__launch_bounds__({found['threads'].strip()}, {parameters['blocks']})"
    return source.replaced([(bounds.start_byte, bounds.end_byte, new)])


EDITS = (
    Edit(
        name="block",
        phase=0,
        weight=3.0,
        summary="the size of a block or tile along one of its axes",
        apply=_resize,
        candidates=lambda source: list(source.constants),
        domains={"size": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)},
        first={"size": (4, 8, 16, 32, 64, 128, 256, 512)},
    ),
    Edit(
        name="occupancy",
        phase=1,
        weight=1.0,
        summary="blocks that a multiprocessor must have room for: fewer registers for each thread",
        apply=_share,
        candidates=lambda source: list(source.bounds),
        domains={"blocks": (1, 2, 3, 4, 5, 6, 8, 12, 16)},
    ),
)
