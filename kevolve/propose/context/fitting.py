"""Fitting: blocks of text under a budget of characters; what matters least goes first, piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

CHARACTERS_PER_TOKEN = 3.0  # of source code, rather too few: what is set aside must suffice


@dataclass(frozen=True)
class Block:
    """A part of a request: a head and items, the most important item first. `keep` is the higher the longer it stays;
    one with None always does.
    """

    name: str
    head: str = ""
    items: tuple[str, ...] = ()
    keep: int | None = None

    @property
    def text(self) -> str:
        """Head and items; nothing if there are no items left of a block that has lost them."""
        return "\n".join([self.head, *self.items]).strip("\n") if self.items or self.keep is None else ""


class TooLong(Exception):
    """What must stay has `characters` already."""

    def __init__(self, characters: int):
        super().__init__(f"{characters} characters")
        self.characters = characters


def fitted(blocks: Sequence[Block], characters: int) -> list[Block]:
    """The blocks, shortened until their texts have at most `characters` together. Raises TooLong if that cannot be."""
    kept = list(blocks)
    length = sum(len(block.text) for block in kept)
    while length > characters:
        loose = [at for at, block in enumerate(kept) if block.keep is not None and block.items]
        if not loose:
            raise TooLong(length)
        at = min(loose, key=lambda at: kept[at].keep or 0)
        shorter = replace(kept[at], items=kept[at].items[:-1])
        length -= len(kept[at].text) - len(shorter.text)
        kept[at] = shorter
    return kept
