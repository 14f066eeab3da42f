"""Folders: can they be written, on what, and how much room is left; and which runs wait to be gone on with."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kevolve.cache import cache_dir
from kevolve.config import Config
from kevolve.doctor.finding import Finding

ROOM_GIB = 0.2  # a run of some hundred programs takes a few MiB; compilers and Ray take more
NATURAL_ENDS = ("evaluations", "minutes", "exhausted")
LISTED = 5
TAIL_BYTES = 2**16


def folders(config: Config) -> Iterator[Finding]:
    yield _folder("runs folder", Path(config.runs_dir), "runs_dir=FOLDER", needed=True)
    yield _folder("scratch", Path(tempfile.gettempdir()), "TMPDIR=FOLDER", needed=True)
    yield _folder("cache", cache_dir(), "KEVOLVE_CACHE=FOLDER", needed=False)
    files = list(cache_dir().glob("*.json"))
    kinds = {kind: sum(file.name.startswith(f"{kind}-") for file in files) for kind in ("peaks", "survey")}
    yield Finding("cache", f"{kinds['peaks']} measured peaks and {kinds['survey']} surveys of baselines remembered")


def runs(config: Config) -> Iterator[Finding]:
    """Runs that did not end by themselves, the latest first."""
    logs = sorted(Path(config.runs_dir).glob("*/events.jsonl"), key=lambda file: file.stat().st_mtime, reverse=True)
    states = [(log.parent, state) for log in logs if (state := how_it_stands(log))]
    yield Finding("runs", f"{len(logs)} in {config.runs_dir}, {len(states)} of them not finished")
    elsewhere = "" if config.runs_dir == Config().runs_dir else f" runs_dir={config.runs_dir}"
    for folder, state in states[:LISTED]:
        command = f"python -m kevolve.run resume=true name={folder.name}{elsewhere}"
        yield Finding("run", f"{folder.name}: {state}", "" if state.startswith("under way") else command)


def how_it_stands(log: Path) -> str:
    """Why the run of this log is not finished; empty if it is."""
    holder = _holder(log.with_name("lock"))
    if holder:
        return f"under way ({holder})"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        lines = file.read().splitlines()
    for line in reversed(lines):
        try:
            event = json.loads(line)
            if event["kind"] != "closed":
                return "stopped in the middle"
            reason = event["data"]["reason"]
        except (ValueError, KeyError, TypeError):
            continue  # a torn line
        return "" if reason in NATURAL_ENDS else {"faults": "stopped by faults"}.get(reason, str(reason))
    return "stopped in the middle" if lines else "never begun"


def _holder(lock: Path) -> str:
    """The process that drives the run, if one does."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        handle = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(handle, 200, 0).decode(errors="replace").strip() or "an unknown process"
        finally:
            os.close(handle)
    return ""


def _folder(what: str, folder: Path, mend: str, *, needed: bool) -> Finding:
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Finding(what, f"{folder} cannot be written", f"choose another: {mend}", needed=needed)
    free = shutil.disk_usage(existing).free / 2**30
    little = f"make room, or choose another: {mend}" if free < ROOM_GIB else ""
    state = f"{folder} can be written, {_file_system(existing)}, {free:.1f} GiB free"
    return Finding(what, state, little, needed=needed)


def _file_system(folder: Path) -> str:
    """The kind of file system that a folder is on: a lock on some network ones holds nobody off."""
    best, kind = "", "unknown file system"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, name, *_ = line.split()
        if folder.resolve().is_relative_to(place) and len(place) >= len(best):
            best, kind = place, name
    return kind
