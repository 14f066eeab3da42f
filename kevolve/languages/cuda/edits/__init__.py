"""Named source edits on CUDA C++ programs: what the genetic proposer can do to them.

They know no operator: sizes of blocks and tiles, how many blocks share a multiprocessor, unrolling, what may alias, and
which caches loads and stores go through.
"""

from kevolve.languages.cuda.edits import loops, memory, sizes
from kevolve.languages.cuda.edits.edit import Edit
from kevolve.languages.cuda.edits.source import Source

EDITS: dict[str, Edit] = {edit.name: edit for edit in (*sizes.EDITS, *loops.EDITS, *memory.EDITS)}


def tag(text: str) -> str:
    """Begin to edit: nothing needs a mark."""
    return text


def finish(tagged: str) -> str:
    """The program as it is to be built."""
    return tagged


__all__ = ["EDITS", "Edit", "Source", "finish", "tag"]
