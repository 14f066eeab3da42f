"""Parts: the verdicts of a run as Parquet files, for analysis. They can always be rebuilt from the events.

The schema is explicit and versioned: columns may be added, never changed, and what has no column is in `verdict`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kevolve.durable import write_atomically

if TYPE_CHECKING:
    import pyarrow as pa

    from kevolve.events import Event

SCHEMA = 1
_NAME = re.compile(r"part-(\d+)-(\d+)\.parquet")


def schema() -> pa.Schema:
    """The columns of a part. `verdict`, `key` and `origin` are JSON; fitness is null unless the program was Scored."""
    import pyarrow as pa

    text, number = pa.string(), pa.float64()
    columns = [
        *[pa.field("seq", pa.int64()), pa.field("time", number)],
        *[pa.field(name, text) for name in ("operator", "device")],
        *[pa.field("island", pa.int32()), pa.field("number", pa.int64()), pa.field("reused", pa.bool_())],
        *[pa.field(name, text) for name in ("program", "language", "source", "origin")],
        pa.field("parents", pa.list_(text)),
        *[pa.field(name, text) for name in ("outcome", "stage", "reason")],
        *[pa.field(name, number) for name in ("speedup", "worst", "low", "high", "roofline")],
        *[pa.field(name, text) for name in ("verdict", "key", "artefact", "sandbox")],
        *[pa.field("seed", pa.int64()), pa.field("seconds", number)],
    ]
    return pa.schema(columns, metadata={"kevolve.schema": str(SCHEMA)})


def row(event: Event, program: Mapping[str, Any], source: str) -> dict[str, Any]:
    """One `judged` event and its program as a row."""
    data, judgement = event.data, event.data["judgement"]
    verdict = judgement["verdict"]
    fitness = verdict.get("fitness") or {}
    low, high = fitness.get("interval", (None, None))
    return {
        "seq": event.seq,
        "time": event.time,
        **{name: data[name] for name in ("operator", "device", "island", "number", "reused", "program")},
        "language": program["language"],
        "source": source,
        "origin": json.dumps(program["origin"]),
        "parents": program["parents"],
        "outcome": verdict["verdict"],
        "stage": verdict.get("stage") or verdict.get("kind"),
        "reason": verdict.get("reason"),
        **{name: fitness.get(name) for name in ("speedup", "worst", "roofline")},
        "low": low,
        "high": high,
        "verdict": json.dumps(verdict),
        "key": json.dumps(judgement["key"]),
        **{name: judgement[name] for name in ("artefact", "sandbox", "seed", "seconds")},
    }


def write_part(folder: Path, first: int, last: int, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Seal `rows`, the verdicts among the events `first` to `last`, as a whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema()), sink, compression="zstd")
    path = folder / f"part-{first:08d}-{last:08d}.parquet"
    write_atomically(path, sink.getvalue().to_pybytes())
    return path


def sealed_through(folder: Path, last: int) -> int:
    """The last event that the parts cover. Parts that are unreadable or do not follow on are removed for rebuilding."""
    covered = 0
    parts = {path: _NAME.fullmatch(path.name) for path in sorted(folder.glob("part-*.parquet"))}
    for path, name in parts.items():
        first, end = (int(name[1]), int(name[2])) if name else (0, 0)
        if first == covered + 1 and end <= last and _is_sound(path):
            covered = end
        else:
            path.unlink()
    return covered


def _is_sound(path: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = pq.read_schema(path)
    except (OSError, pa.ArrowInvalid):
        return False
    return bool(found.equals(schema()) and (found.metadata or {}).get(b"kevolve.schema") == str(SCHEMA).encode())
