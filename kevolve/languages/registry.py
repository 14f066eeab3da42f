"""The languages by name, those of other packages included (entry point group `kevolve.languages`)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from kevolve.errors import UsageError, nearest
from kevolve.languages.cpp.build import Cpp
from kevolve.languages.cuda.build import Cuda
from kevolve.languages.language import Language, Target
from kevolve.languages.triton.build import Triton

GROUP = "kevolve.languages"
LANGUAGES: dict[str, Language] = {language.name: language for language in (Cpp(), Triton(), Cuda())}


def language(name: str) -> Language:
    """The language called `name`; UsageError naming those there are."""
    if name in LANGUAGES:
        return LANGUAGES[name]
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            try:
                made: Language = entry.load()()
            except Exception as error:  # any: it is another package's code
                reason = f"{entry.value} cannot be imported ({type(error).__name__}: {error})"
                raise UsageError(f"the language {name} cannot be used: {reason}. Mend or uninstall it.") from error
            return LANGUAGES.setdefault(name, made)
    names = language_names()
    raise UsageError(f"no language is called {name}.{nearest(name, names)} Languages: {', '.join(names)}.")


def language_names() -> list[str]:
    """Every language, kevolve's own first."""
    return list(dict.fromkeys((*LANGUAGES, *sorted(entry.name for entry in entry_points(group=GROUP)))))


def language_of(suffix: str) -> Language:
    """The language of files that end in `suffix`, such as .cpp; UsageError naming those there are."""
    known = []
    for name in language_names():  # our own first: another package's is loaded only if none of them will do
        known.append(language(name))
        if known[-1].suffix == suffix:
            return known[-1]
    listed = ", ".join(f"{candidate.suffix} ({candidate.name})" for candidate in known)
    raise UsageError(f"no language has files ending in {suffix or 'nothing'!r}. Suffixes: {listed}.")


def builder(name: str, target: Target) -> Callable[..., Any]:
    """What builds programs of a language for `target`: the target's own builder, or the language's `build`."""
    if not target.builder:
        return language(name).build
    module, _, function = target.builder.partition(":")
    try:
        found: Callable[..., Any] = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise OSError(
            f"{target.builder}, which builds for {target.architecture}, cannot be imported: {error}"
        ) from error
    return found
