"""Secrets of the environment: kept from everything that runs programs, and out of everything that is written.

Keys come from environment variables and from nowhere else. What Ray starts inherits the environment of the process
that starts it, so they are taken out of it for that moment.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_NOT_OURS = ("RAY_",)  # its processes need their own token
_SHORTEST = 8  # characters: shorter values would be found in any text


def secret_names() -> list[str]:
    """The environment variables that hold keys, by their names."""
    return [name for name in os.environ if _SECRET.search(name) and not name.startswith(_NOT_OURS)]


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """Inside, the environment holds no key."""
    taken = {name: os.environ.pop(name) for name in secret_names()}
    try:
        yield
    finally:
        os.environ.update(taken)


def scrubbed(text: str) -> str:
    """`text` without the values of keys and without the path of the home folder."""
    for name in secret_names():
        value = os.environ[name]
        if len(value) >= _SHORTEST:
            text = text.replace(value, f"[{name}]")
    home = str(Path.home())
    return text if home == "/" else re.sub(rf"{re.escape(home)}(?=[/\s\"':]|$)", "~", text)
