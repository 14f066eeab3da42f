"""The one error of this room: a reference that no plain program can be derived from."""

from __future__ import annotations


class Unsupported(Exception):
    """No program can be derived. `reason` is one sentence: the torch operation, and what to do about it."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason
