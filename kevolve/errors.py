"""Errors that a user can mend: what was wrong, where, and what to type instead."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UsageError(Exception):
    """The command or the configuration is wrong. Commands print it and exit with status 2."""


class FaultsStopped(Exception):
    """The machine kept failing, so the run stopped. Commands print it and exit with status 4."""


def nearest(name: str, choices: Iterable[str]) -> str:
    """`" Did you mean X?"`, or nothing when no choice is close."""
    close = get_close_matches(name, list(choices), n=1)
    return f" Did you mean {close[0]}?" if close else ""
