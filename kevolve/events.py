"""The event log: one JSON object a line, only ever appended to, from which everything else can be derived.

A line holds `seq` (1, 2, ...), `time` (seconds since 1970), `elapsed` (seconds since the session began, by a clock
that nobody can set), `kind`, `data` and last a `checksum` over what stands before it. What happens to a program is
told by its events in this order:

    asked      an island wants a child: operator, device, island, lane, request, random_state; `asked` numbers it
    called     a model was called for it: call {model, purpose, prompt (blob), reply (blob), outcome, tokens, cost_usd}
    proposed   the answer: attempt, program {id, language, source (blob), parents, origin}, tokens, cost_usd;
               `retried` if the program was known and another attempt follows
    refused    or none, and why; `fault` if the proposer failed rather than declined
    submitted  the built program goes to the device: artefact
    judged     its verdict: number (of new judgements in this search; 0 for a starting program), reused, judgement;
               `likeness` is equal for programs that differ in names, comments and layout alone
    told       the island has heard it; `niche` is how the program goes about its work

Besides: `opened` {config, environment, started; left_out: seeds that could not be generated, and why}, `surveyed`
{times_us, dropped, workloads: sizes, dtype and so on of each}, `migrated` {moves}, `stirred` (an island that finds
nothing better) {island, remedy, guest, verdicts}, `confirmed` {judgement, champion, reason} and `closed` {reason}.
Every event but the first and last names operator and device.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevolve.durable import naming, sync_folder
from kevolve.errors import UsageError

SCHEMA = 1
DURABLE = frozenset({"opened", "judged", "confirmed", "closed"})

_CHECKSUM = ',"checksum":"'
_TAIL = len(_CHECKSUM) + 8 + len('"}')


@dataclass(frozen=True)
class Event:
    """One thing that happened. `data` is plain JSON; its fields depend on `kind` (see the module's head).

    `time` is for people: whoever sets the machine's clock changes it. Durations come from `elapsed`.
    """

    seq: int
    time: float
    kind: str
    data: Mapping[str, Any]
    elapsed: float


class EventLog:
    """Appends to one log file. Verdicts are on the disk when `append` returns, other events with the system."""

    def __init__(self, path: Path, began: float | None = None) -> None:
        """Open `path` for appending, creating it; a torn last line is cut off. UsageError on a damaged log.

        `began` is when the session began, by `time.monotonic`; now unless given.
        """
        self.path = path
        self._began = time.monotonic() if began is None else began
        self.last = 0
        sound = 0
        if path.exists():
            for event, end in _scan(path):
                self.last, sound = event.seq, end
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        os.ftruncate(self._file, sound)
        self._size = sound
        sync_folder(path.parent)

    def append(self, kind: str, data: Mapping[str, Any]) -> Event:
        """Store one event. OSError (a full disk) leaves the log as it was before."""
        event = Event(self.last + 1, time.time(), kind, data, round(time.monotonic() - self._began, 6))
        line = _line(event)
        try:
            with naming(self.path):
                if os.write(self._file, line) != len(line):
                    raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: event {event.seq} was written in part")
        except OSError:
            # Half a line in the middle of the log would make the whole run unreadable.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        if kind in DURABLE:
            with naming(self.path):
                os.fsync(self._file)
        self.last, self._size = event.seq, self._size + len(line)
        return event

    def close(self) -> None:
        try:
            with naming(self.path):
                os.fsync(self._file)
        finally:
            os.close(self._file)


def read_events(path: Path) -> Iterator[Event]:
    """The events of a log, oldest first, without a torn last line. UsageError names a line that is damaged."""
    for event, _ in _scan(path):
        yield event


def _line(event: Event) -> bytes:
    fields: dict[str, Any] = {"seq": event.seq, "time": event.time, "elapsed": event.elapsed}
    fields |= {"kind": event.kind, "data": event.data}
    if event.seq == 1:
        fields = {"schema": SCHEMA, **fields}
    body = json.dumps(fields, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    return body[:-1] + f'{_CHECKSUM}{zlib.crc32(body):08x}"}}\n'.encode()


def _scan(path: Path) -> Iterator[tuple[Event, int]]:
    """Every sound event with the offset at which its line ends."""
    end, started = 0, 0.0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                event = _parse(line, number, started)
            except _Torn:
                if file.read(1):
                    raise _damaged(path, number, "it is not a whole JSON object") from None
                return
            except ValueError as error:
                raise _damaged(path, number, str(error)) from None
            end += len(line)
            if event.kind == "opened":
                started = event.data.get("started", event.time)
            yield event, end


class _Torn(Exception):
    """The line was cut off while it was written."""


def _parse(line: bytes, number: int, started: float) -> Event:
    """`started`, in seconds since 1970, is for events of a version that did not store `elapsed`."""
    if not line.endswith(b"\n"):
        raise _Torn
    text = line[:-1]
    try:
        record = json.loads(text)
    except ValueError:
        raise _Torn from None
    body = text[:-_TAIL] + b"}"
    if not isinstance(record, dict) or record.get("checksum") != f"{zlib.crc32(body):08x}":
        raise ValueError("its checksum does not fit its content")
    if record["seq"] != number:
        raise ValueError(f"it says seq {record['seq']}, but {number} should come here")
    if number == 1 and record.get("schema") != SCHEMA:
        raise ValueError(f"it has schema {record.get('schema')}, and this version of kevolve reads {SCHEMA}")
    kind, data = record["kind"], record["data"]
    if "elapsed" in record:
        return Event(number, record["time"], kind, data, record["elapsed"])
    since = data.get("started", record["time"]) if kind == "opened" else started
    return Event(number, record["time"], kind, data, record["time"] - since)


def _damaged(path: Path, number: int, problem: str) -> UsageError:
    return UsageError(
        f"{path}, line {number}: {problem}. Nothing was changed.\n"
        f"  Restore the file from a backup, or keep the part before it: head -n {number - 1} {path.name} > sound.jsonl"
    )
