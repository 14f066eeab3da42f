"""SEARCH/REPLACE blocks: finding them in a reply, and applying them to a text that they quote more or less exactly."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_SEARCH = re.compile(r"^[ \t>]*<{4,}[ \t]*(SEARCH|ORIGINAL|HEAD|OLD)?\b.*$", re.IGNORECASE)
_MIDDLE = re.compile(r"^[ \t>]*={4,}[ \t]*$")
_REPLACE = re.compile(r"^[ \t]*>{4,}[ \t]*(REPLACE|UPDATED|NEW)?\b.*$", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[\w+#.-]*[ \t]*$")
_SHOWN = 12  # lines of the nearest place, when a block does not match

Lines = list[str]


@dataclass(frozen=True)
class Block:
    """Lines to find and lines to put in their place."""

    search: tuple[str, ...]
    replace: tuple[str, ...]


@dataclass(frozen=True)
class NoMatch:
    """Why blocks cannot be read or applied, in words for whoever wrote them."""

    reason: str

    def __str__(self) -> str:
        return self.reason


def blocks_of(text: str) -> list[Block] | NoMatch:
    """The blocks of a reply, in order; NoMatch if one is not finished. A fence may finish the last one."""
    found: list[Block] = []
    search: Lines = []
    replace: Lines = []
    part = "talk"
    for line in text.split("\n"):
        if part == "talk":
            if _SEARCH.match(line):
                search, replace, part = [], [], "search"
        elif part == "search" and _MIDDLE.match(line):
            part = "replace"
        elif part == "replace" and _REPLACE.match(line):
            found.append(Block(tuple(_bare(search)), tuple(_bare(replace))))
            part = "talk"
        elif _SEARCH.match(line) or (part == "search" and _REPLACE.match(line)):
            return NoMatch(
                f"block {len(found) + 1} is not finished: a block is <<<<<<< SEARCH, =======, >>>>>>> REPLACE"
            )
        else:
            (search if part == "search" else replace).append(line)
    fenced = _until_fence(replace) if part == "replace" else None
    if fenced is not None:
        found.append(Block(tuple(_bare(search)), tuple(_bare(fenced))))
    elif part != "talk":
        return NoMatch(f"block {len(found) + 1} is not finished: its last line must be >>>>>>> REPLACE")
    return found


def applied(text: str, blocks: Sequence[Block]) -> str | NoMatch:
    """`text` with all blocks applied one after the other; NoMatch says which does not apply and shows what is there."""
    lines = text.split("\n")
    for number, block in enumerate(blocks, start=1):
        if not any(line.strip() for line in block.search):
            return NoMatch(f"block {number} searches for nothing: quote the lines that it replaces")
        places = _places(lines, block.search)
        if not places:
            return NoMatch(f"block {number}: the program has no such lines.{_nearest(lines, block.search)}")
        if len(places) > 1:
            at = ", ".join(str(start + 1) for start, _ in places)
            return NoMatch(f"block {number} fits at lines {at}: quote more lines around the one that is meant")
        start, end = places[0]
        new = _indented(block, lines[start:end])
        lines = lines[:start] + new + lines[end:]
    return "\n".join(lines)


def _until_fence(lines: Lines) -> Lines | None:
    """The lines up to the fence that closes them; None if there is none."""
    first = next((at for at, line in enumerate(lines) if line.strip()), 0)
    begins = first + 1 if lines[first:] and _FENCE.match(lines[first]) else first
    end = next((at for at in range(begins, len(lines)) if _FENCE.match(lines[at])), None)
    return None if end is None else lines[begins:end]


def _bare(lines: Lines) -> Lines:
    """Without fences and blank lines around."""
    while lines and (not lines[0].strip() or _FENCE.match(lines[0])):
        lines = lines[1:]
    while lines and (not lines[-1].strip() or _FENCE.match(lines[-1])):
        lines = lines[:-1]
    return lines


# How alike two lines have to be, strictest first. The last two forgive indentation and all other blanks.
_READINGS: tuple[Callable[[str], str], ...] = (
    lambda line: line,
    lambda line: line.rstrip(),
    lambda line: line.strip(),
    lambda line: re.sub(r"\s+", "", line),
)


def _places(lines: Lines, search: Sequence[str]) -> list[tuple[int, int]]:
    """Where the lines of `search` stand, by the strictest reading that finds them; blank lines do not count."""
    for reading in _READINGS:
        wanted = [reading(line) for line in search if line.strip()]
        present = [(at, reading(line)) for at, line in enumerate(lines) if line.strip()]
        texts = [text for _, text in present]
        size = len(wanted)
        found = [
            (present[at][0], present[at + size - 1][0] + 1)
            for at in range(len(texts) - size + 1)
            if texts[at : at + size] == wanted
        ]
        if found:
            return found
    return []


def _indented(block: Block, there: Lines) -> Lines:
    """The new lines, moved as far as the quoted ones stood from where they really are."""
    quoted = next((line for line in block.search if line.strip()), "")
    real = next((line for line in there if line.strip()), "")
    said, meant = _blanks(quoted), _blanks(real)
    if said == meant:
        return list(block.replace)
    moved = []
    for line in block.replace:
        if not line.strip():
            moved.append("")
        elif line.startswith(said):
            moved.append(meant + line[len(said) :])
        else:
            moved.append(meant[: max(0, len(meant) - len(said) + len(_blanks(line)))] + line.lstrip())
    return moved


def _blanks(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _nearest(lines: Lines, search: Sequence[str]) -> str:
    """The part of the program that is most like what was searched for."""
    wanted = "\n".join(line.strip() for line in search if line.strip())
    size = max(1, len([line for line in search if line.strip()]))

    def likeness(at: int) -> float:
        part = "\n".join(line.strip() for line in lines[at : at + size])
        return SequenceMatcher(None, wanted, part, autojunk=False).quick_ratio()

    at = max(range(max(1, len(lines) - size + 1)), key=likeness)
    shown = "\n".join(lines[at : at + min(size, _SHOWN)])
    return f" Nearest to them, from line {at + 1}:\n{shown}"
