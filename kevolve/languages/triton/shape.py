"""The shape of a Triton program: axes of program instances, loops in kernels, and the block that they hold."""

from __future__ import annotations

import re
from math import prod

from kevolve.languages.language import Shape
from kevolve.languages.triton.edits.source import Source

_NOT_SIZES = re.compile("WARPS|STAGES")


def shape(source: str) -> Shape:
    """What the text tells; a text that is no Python has no loops."""
    tree = Source(source)
    axes = len(set(re.findall(r"tl\.program_id\((\w+)", source)))
    sizes = [number.value for name, number in tree.constants.items() if not _NOT_SIZES.search(name)]
    block = prod(size for size in sizes if isinstance(size, int))
    return Shape(f"{axes} axes", max(1, len(tree.loops)), Shape.rounded(block))
