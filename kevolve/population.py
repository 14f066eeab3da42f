"""The population: everything that happened in a run, on disk, with one writer.

A run is a folder: `events.jsonl` is the truth (events.py), `blobs/ab/<sha256>` holds the large texts that events
name (zstd; written before the event that names them), and `population/part-<first>-<last>.parquet` the verdicts of
those events as a table for analysis, sealed now and then and rebuilt from the events whenever it does not fit them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import socket
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kevolve.durable import naming, sync_folder
from kevolve.errors import UsageError, nearest
from kevolve.events import Event, EventLog, read_events

__all__ = ["Event", "Population", "read_events", "read_text"]

# A folder in which there can be no run, as opposed to a disk that is full or breaks.
NO_PLACE = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST)
SEAL_EVERY = 500  # verdicts
_TEXTS_KEPT = 2048


class Population:
    """One run's folder, opened for writing; the lock is held until `close` or the death of the process."""

    def __init__(self, folder: Path, began: float | None = None) -> None:
        """Open or create `folder`. UsageError if another driver has it or its log is damaged.

        `began` is when the session began, as for `EventLog`.
        """
        self.folder = folder
        self._made_folder = not folder.exists()
        (folder / "population").mkdir(parents=True, exist_ok=True)
        (folder / "blobs").mkdir(exist_ok=True)
        self._lock = _lock(folder)
        try:
            self._log = EventLog(folder / "events.jsonl", began)
        except BaseException:
            os.close(self._lock)
            raise
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._unsynced: set[Path] = set()
        self._programs: dict[str, Mapping[str, Any]] = {}
        self._unsealed: list[Event] = []
        self._sealed = 0
        if self._log.last:
            self._catch_up()

    @property
    def is_new(self) -> bool:
        return self._log.last == 0

    def recall(self) -> Iterator[Event]:
        """Every event so far, oldest first."""
        return read_events(self._log.path)

    def append(self, kind: str, data: Mapping[str, Any]) -> Event:
        """Store one event; a verdict is on the disk, with every text it rests on, when this returns."""
        if kind == "judged":
            self._sync_blobs()
        event = self._log.append(kind, data)
        self._remember(event)
        if len(self._unsealed) >= SEAL_EVERY:
            self.seal()
        return event

    def put(self, text: str) -> str:
        """Store a text once; returns its name, the SHA-256 of its UTF-8 form."""
        name = hashlib.sha256(text.encode()).hexdigest()
        if name not in self._texts:
            path = _blob(self.folder, name)
            if not path.exists():
                _write_blob(path, text)
                self._unsynced.add(path.parent)
            self._keep(name, text)
        return name

    def text(self, name: str) -> str:
        """The text that `put` named; UsageError if it is missing or damaged."""
        if name in self._texts:
            self._texts.move_to_end(name)
            return self._texts[name]
        text = read_text(self.folder, name)
        self._keep(name, text)
        return text

    def seal(self) -> None:
        """Write the verdicts that are in no part yet to a new Parquet part."""
        if not self._unsealed:
            return
        from kevolve.parts import write_part

        write_part(self.folder / "population", self._sealed + 1, self._log.last, list(self._rows()))
        self._sealed = self._log.last
        self._unsealed.clear()

    def close(self) -> None:
        """Seal, and let go of the folder. If it was made for a run in which nothing happened, it is gone again."""
        with contextlib.ExitStack() as last:
            last.callback(os.close, self._lock)
            if self._made_folder and self.is_new:
                last.callback(shutil.rmtree, self.folder, ignore_errors=True)
            last.callback(self._log.close)
            last.callback(self._sync_blobs)
            self.seal()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        # What a full disk refuses first is the news: closing would only say the same of another file.
        with contextlib.suppress(OSError) if isinstance(error, OSError) else contextlib.nullcontext():
            self.close()

    def _remember(self, event: Event) -> None:
        if event.kind == "proposed":
            program = event.data["program"]
            self._programs.setdefault(program["id"], program)
        elif event.kind == "judged" and event.seq > self._sealed:
            self._unsealed.append(event)

    def _rows(self) -> Iterator[dict[str, Any]]:
        from kevolve.parts import row

        for event in self._unsealed:
            program = self._programs[event.data["program"]]
            yield row(event, program, self.text(program["source"]))

    def _catch_up(self) -> None:
        """Take the events into account that were stored before, and drop parts that do not fit them."""
        from kevolve.parts import sealed_through

        self._sealed = sealed_through(self.folder / "population", self._log.last)
        for event in self.recall():
            self._remember(event)

    def _keep(self, name: str, text: str) -> None:
        self._texts[name] = text
        if len(self._texts) > _TEXTS_KEPT:
            self._texts.popitem(last=False)

    def _sync_blobs(self) -> None:
        for folder in self._unsynced:
            sync_folder(folder)
        self._unsynced.clear()


def open_run(runs_dir: Path, name: str, *, resume: bool, began: float | None = None) -> Population:
    """The run's population; UsageError if it exists and is not to be resumed, or the other way round.

    `began` is as for `EventLog`.
    """
    folder = runs_dir / name
    exists = (folder / "events.jsonl").exists() and (folder / "events.jsonl").stat().st_size > 0
    if resume and not exists:
        runs = sorted(path.parent.name for path in runs_dir.glob("*/events.jsonl"))
        listed = f"Runs here: {', '.join(runs)}." if runs else f"There are no runs in {runs_dir} yet."
        raise UsageError(
            f"name={name}: there is no run of that name to resume in {runs_dir}.{nearest(name, runs)}\n"
            f"  {listed} Leave out resume=true to start a new one."
        )
    if exists and not resume:
        raise UsageError(
            f"name={name}: this run exists already ({folder}).\n"
            f"  Type resume=true to go on with it, or another name=... to start a new one."
        )
    try:
        return Population(folder, began)
    except OSError as error:
        if error.errno not in NO_PLACE:
            raise
        raise UsageError(
            f"runs_dir={runs_dir}: the run cannot be stored there ({error.strerror}: {error.filename}).\n"
            "  Type runs_dir=FOLDER with a folder that can be written."
        ) from None


def read_text(folder: Path, name: str) -> str:
    """A text out of the blobs of the run in `folder`. UsageError if it is missing or is not what its name says."""
    import pyarrow as pa

    path = _blob(folder, name)
    try:
        with pa.input_stream(str(path), compression="zstd") as stream:
            content: bytes = stream.read()
    except OSError as error:
        raise UsageError(f"{path}: an event of this run names this text, but it cannot be read ({error}).") from None
    if hashlib.sha256(content).hexdigest() != name:
        raise UsageError(f"{path}: the content is not what its name says. Restore the file from a backup.")
    return content.decode()


def _blob(folder: Path, name: str) -> Path:
    return folder / "blobs" / name[:2] / name


def _write_blob(path: Path, text: str) -> None:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(text.encode())
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_name(f".{path.name}")
    with naming(path), temporary.open("wb") as file:
        file.write(sink.getvalue())
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _lock(folder: Path) -> int:
    """Hold the run. The kernel lets go when the process ends, however it ends."""
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        with naming(folder / "lock"):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(handle, 200, 0).decode(errors="replace").strip() or "unknown"
        os.close(handle)
        raise UsageError(
            f"{folder.name}: another process is driving this run ({holder}).\n"
            f"  Wait for it or stop it (Ctrl-C there saves everything), or type another name=..."
        ) from None
    with naming(folder / "lock"):
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
    return handle
