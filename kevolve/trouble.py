"""Trouble with a disk, told to whoever typed the command: what happened, in which folder, and what to type."""

from __future__ import annotations

import errno
import shlex
import shutil
from pathlib import Path

from kevolve.config import Config

FULL = (errno.ENOSPC, errno.EDQUOT)
CLOSED = (errno.EROFS, errno.EACCES, errno.EPERM)  # a place that nothing can be written to


def resume_command(config: Config) -> str:
    """What goes on with the run."""
    elsewhere = "" if config.runs_dir == Config().runs_dir else " " + shlex.quote(f"runs_dir={config.runs_dir}")
    return f"python -m kevolve.run resume=true name={config.name}{elsewhere}"


def disk_trouble(error: OSError, config: Config) -> str:
    """Why the run stopped and how it goes on. Events are appended whole, so what was judged before is on disk."""
    place = Path(error.filename or config.runs_dir)
    mend = "Mend it"
    if error.errno in FULL:
        mend = f"Make room in {_folder(place)} ({shutil.disk_usage(_folder(place)).free / 2**20:.1f} MiB free)"
    elif error.errno in CLOSED:
        mend = f"Make {_folder(place)} writable"
    return f"{place}: {error.strerror or error}.\n  {_saved(config, mend)}"


def _saved(config: Config, mend: str) -> str:
    log = Path(config.runs_dir, str(config.name), "events.jsonl")
    if not log.is_file() or log.stat().st_size == 0:
        return f"Nothing had been judged. {mend}, then type the command again."
    return f"What was judged is saved. {mend}, then go on with: {resume_command(config)}"


def _folder(place: Path) -> Path:
    return next((above for above in (place, *place.absolute().parents) if above.is_dir()), Path("/"))
