"""The shape of a CUDA C++ program: axes of its grid and blocks, loops on the device, and the block that it holds."""

from __future__ import annotations

import re
from math import prod

from kevolve.languages.cuda.edits.source import Source
from kevolve.languages.cuda.source import text
from kevolve.languages.language import Shape

_AXIS = re.compile(r"\b(?P<of>blockIdx|threadIdx)\.(?P<axis>[xyz])")


def shape(source: str) -> Shape:
    """What the text tells; a text that is no C++ has no loops."""
    tree = Source(source)
    axes = {"blockIdx": set[str](), "threadIdx": set[str]()}
    for found in _AXIS.finditer(source):
        axes[found["of"]].add(found["axis"])
    block = prod(int(text(node)) for node in tree.constants.values())
    parallel = f"{len(axes['blockIdx'])} axes of {len(axes['threadIdx'])}"
    return Shape(parallel, max(1, len(tree.loops)), Shape.rounded(block))
