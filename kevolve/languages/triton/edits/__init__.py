"""Named source edits on Triton programs: what the genetic proposer can do to them.

They know no operator: block sizes, warps and pipeline stages, how loops are scheduled, and what the caches keep.
"""

from kevolve.languages.triton.edits import loops, memory, sizes
from kevolve.languages.triton.edits.edit import Edit
from kevolve.languages.triton.edits.source import Source

EDITS: dict[str, Edit] = {edit.name: edit for edit in (*sizes.EDITS, *loops.EDITS, *memory.EDITS)}


def tag(text: str) -> str:
    """Begin to edit: nothing needs a mark."""
    return text


def finish(tagged: str) -> str:
    """The program as it is to be built."""
    return tagged


__all__ = ["EDITS", "Edit", "Source", "finish", "tag"]
