"""Retrieval: documents for a request, chosen by what is the matter with its parents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kevolve.knowledge import Library, Need
from kevolve.propose.context.fitting import CHARACTERS_PER_TOKEN

if TYPE_CHECKING:
    from kevolve.config import Config

SHARE = 0.25  # of a request's budget that documents may take


@dataclass(frozen=True)
class Picked:
    """A document for a request: its name, its text as far as it is wanted, and why it was picked."""

    name: str
    text: str
    because: str


class Documents(Protocol):
    """Where documents come from."""

    def documents(self, need: Need) -> Sequence[Picked]:
        """The most useful first."""
        ...


class FromLibrary:
    """The knowledge base, asked for so many characters."""

    def __init__(self, library: Library, characters: int) -> None:
        self._library, self._characters = library, characters

    def documents(self, need: Need) -> Sequence[Picked]:
        picked = self._library.pick(need, self._characters)
        return tuple(Picked(one.document.name, one.text, one.because) for one in picked)


def documents_of(config: Config) -> Documents:
    """The knowledge base of this installation, lessons included; it may take a part of what a request holds."""
    learned = config.knowledge.learned
    library = Library.open(Path(learned) if learned else None)
    return FromLibrary(library, int(SHARE * config.proposer.context_tokens * CHARACTERS_PER_TOKEN))
