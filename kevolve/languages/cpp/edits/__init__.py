"""Named source edits on C++ programs: what the genetic proposer can do to them.

Every edit works on loop nests in general and knows no operator. A program under edit is *tagged*: each loop has
a name that later edits find it by. `tag` starts an edit session, `finish` ends it.
"""

from kevolve.languages.cpp.edits import blocks, jam, lanes, loops, memory, numeric, pragmas
from kevolve.languages.cpp.edits.edit import Edit
from kevolve.languages.cpp.edits.source import Source, finish, tag

EDITS: dict[str, Edit] = {
    edit.name: edit
    for edit in (lanes.EDIT, jam.EDIT, blocks.EDIT, *loops.EDITS, *memory.EDITS, *numeric.EDITS, *pragmas.EDITS)
}

__all__ = ["EDITS", "Edit", "Source", "finish", "tag"]
