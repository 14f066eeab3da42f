"""The data behind the page: all of it as JSON, and every program as a row of CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict

from kevolve.report.findings.history import History
from kevolve.report.findings.review import Review

SCHEMA = 1
COLUMNS = (
    "operator", "device", "program", "evaluation", "seconds", "island", "outcome", "speedup", "low", "high", "worst",
    "roofline", "stage", "reason", "reused", "language", "proposer", "why", "parents", "source",
)  # fmt: skip


def as_json(history: History, review: Review) -> str:
    """The review and every program. `schema` changes when a field changes its meaning or goes."""
    told = {"schema": SCHEMA, **asdict(review), "programs": list(rows(history))}
    return json.dumps(told, indent=1) + "\n"


def as_csv(history: History) -> str:
    """A row for every program; what was not measured is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(history))
    return text.getvalue()


def rows(history: History) -> Iterator[dict[str, object]]:
    """Every program of every search, in the order in which it was proposed. `source` names a blob of the run."""
    for search in history.searches.values():
        for entry in search.entries.values():
            low, high = entry.interval or (None, None)
            yield {
                "operator": search.operator,
                "device": search.device,
                "program": entry.id,
                "evaluation": entry.number,
                "seconds": round(entry.at, 3),
                "island": entry.island,
                "outcome": entry.outcome,
                "speedup": entry.speedup,
                "low": low,
                "high": high,
                "worst": entry.worst,
                "roofline": entry.roofline,
                "stage": entry.stage,
                "reason": entry.reason,
                "reused": entry.reused,
                "language": entry.record["language"],
                "proposer": entry.proposer,
                "why": entry.why,
                "parents": " ".join(entry.parents),
                "source": entry.record["source"],
            }
