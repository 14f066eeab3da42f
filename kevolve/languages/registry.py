"""The languages by name."""

from __future__ import annotations

from kevolve.errors import UsageError, nearest
from kevolve.languages.cpp.build import Cpp
from kevolve.languages.language import Language
from kevolve.languages.triton.build import Triton

LANGUAGES: dict[str, Language] = {language.name: language for language in (Cpp(), Triton())}


def language(name: str) -> Language:
    """The language called `name`; UsageError naming those there are."""
    if name not in LANGUAGES:
        raise UsageError(f"no language is called {name}.{nearest(name, LANGUAGES)} Languages: {', '.join(LANGUAGES)}.")
    return LANGUAGES[name]


def language_of(suffix: str) -> Language:
    """The language of files that end in `suffix`, such as .cpp; UsageError naming those there are."""
    for candidate in LANGUAGES.values():
        if candidate.suffix == suffix:
            return candidate
    known = ", ".join(f"{candidate.suffix} ({candidate.name})" for candidate in LANGUAGES.values())
    raise UsageError(f"no language has files ending in {suffix or 'nothing'!r}. Suffixes: {known}.")
