"""One timing at a time on a device, whoever asks: other runs, other users' judges, other Ray clusters."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from types import TracebackType


class MachineLock:
    """Held with `with`, also inside another `with` of the same lock; the kernel lets go when the holder dies."""

    def __init__(self, device: str):
        self.path = Path(tempfile.gettempdir()) / f"kevolve-{device}.lock"
        self.descriptor = -1
        self.held = 0

    def __enter__(self) -> None:
        if self.held == 0:
            self._take()
        self.held += 1

    def _take(self) -> None:
        # World-writable on purpose: another user's run must wait for ours, too. Nothing is ever written to it.
        try:
            self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except PermissionError:
            self.descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.held -= 1
        if not self.held:
            os.close(self.descriptor)
            self.descriptor = -1
