"""Durable writes: what is on disk when a call returns is there after a power cut, whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` as a whole: a reader, or a crash, sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with naming(path), temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):  # half a file would keep a full disk full
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make names that were created in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with naming(folder):
            os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError inside says which file it is about: one from a write to an open file does not by itself."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
