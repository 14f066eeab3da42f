"""The cache: what is measured once per machine and remembered for later runs.

A cache that cannot be written (a home that is read-only, a full disk) costs time and never a run: what it would have
remembered is measured again.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from kevolve.durable import write_atomically


def cache_dir() -> Path:
    """The user's cache folder, which may not exist yet. `KEVOLVE_CACHE` moves it."""
    chosen = os.environ.get("KEVOLVE_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kevolve"


def remember(path: Path, content: bytes) -> None:
    """Store a file of the cache, if it can be stored; a reader sees all of it or nothing."""
    with contextlib.suppress(OSError):
        write_atomically(path, content)


def why_not_writable() -> str:
    """Why the cache remembers nothing, for people; empty if it does."""
    folder = cache_dir()
    try:
        write_atomically(folder / "writable", b"")
    except OSError as error:
        return f"{folder} cannot be written ({error.strerror or error})"
    return ""
