"""Behaviour: how a program goes about its work, measured or seen in its text. Equal niches do alike.

An island keeps the best program of each niche (policies/islands.py), so that another way to do it can be improved
before it has to win. Four things make a niche: what bounds it as it was measured (memory, launch or compute), how it is
shared out over threads or program instances, how often it goes over its data, and how large a block it holds at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kevolve.program import normalise
from kevolve.verdict import Scored, Verdict

if TYPE_CHECKING:
    from kevolve.languages.language import Shape

NEAR_ROOFLINE = 0.6  # of the copy-rate bound: from there on, memory is what there is to wait for
LAUNCH_US = 8.0  # what a call costs that does next to nothing


def niche_of(language: str, source: str, verdict: Verdict) -> str:
    """The niche of a program with this verdict; empty for one that was rejected."""
    if not isinstance(verdict, Scored):
        return ""
    shape = _shape(language, source)
    static = f" parallel={shape.parallel} passes={shape.passes} block={shape.block}" if shape is not None else ""
    return f"bound={_bound(verdict)}{static}"


def _bound(scored: Scored) -> str:
    """What the program waits for on most of its workloads."""
    if scored.fitness.roofline >= NEAR_ROOFLINE:
        return "memory"
    quick = [measurement.us <= LAUNCH_US for measurement in scored.measurements]
    return "launch" if 2 * sum(quick) > len(quick) else "compute"


@lru_cache(maxsize=4096)
def _shape(language: str, source: str) -> Shape | None:
    """What a program's text says; None for a language that has no `shape.py`."""
    shape = optional(language, "shape")
    found: Shape | None = shape(source) if shape is not None else None
    return found


@lru_cache(maxsize=4096)
def likeness(language: str, source: str) -> str:
    """Equal for programs that differ at most in comments, layout and names: their edit distance is nothing."""
    canonical = optional(language, "canonical")
    text = canonical(source) if canonical is not None else normalise(source)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def optional(language: str, name: str) -> Callable[[str], Any] | None:
    """The function of a language's file `<name>.py`; None if the language has no such file."""
    module = f"kevolve.languages.{language}.{name}"
    try:
        found: Callable[[str], Any] = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        return None
    return found
