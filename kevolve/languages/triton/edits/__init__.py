"""Named source edits on Triton programs: what the genetic proposer can do to them.

They know no operator. Some rewrite a kernel: what it holds instead of reading it again (`holding`), two passes as one
(`online`), whole blocks without masks (`guards`), which program does what (`grid`), addresses (`addresses`). Then come
block sizes, warps, stages and precision (`sizes`), how loops are scheduled (`loops`), and what the caches keep
(`memory`). They are applied in this order, and a name that counts loads or loops counts those of the rewritten text.
"""

from kevolve.languages.triton.edits import addresses, grid, guards, holding, loops, memory, online, sizes
from kevolve.languages.triton.edits.edit import Edit
from kevolve.languages.triton.edits.source import Source

_ROOMS = (holding, grid, online, guards, addresses, sizes, loops, memory)
EDITS: dict[str, Edit] = {edit.name: edit for room in _ROOMS for edit in room.EDITS}


def tag(text: str) -> str:
    """Begin to edit: nothing needs a mark."""
    return text


def finish(tagged: str) -> str:
    """The program as it is to be built."""
    return tagged


__all__ = ["EDITS", "Edit", "Source", "finish", "tag"]
