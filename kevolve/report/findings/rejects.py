"""Rejects: at which stage programs fell and for which reasons, like reasons counted together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kevolve.report.findings.history import Entry
from kevolve.verdict import STAGES

REASON_KEPT = 200  # characters


@dataclass(frozen=True)
class Reject:
    """`count` programs that fell at `stage` for reasons that differ only in numbers; `reason` is the first one's."""

    stage: str
    reason: str
    count: int
    example: str


def rejects(entries: Iterable[Entry]) -> tuple[Reject, ...]:
    """All rejects among `entries`, by stage in the order of the stages, the commonest reason first."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry.outcome == "Rejected":
            groups.setdefault((entry.stage, _kind(entry.reason)), []).append(entry)
    found = [Reject(stage, _line(group[0].reason), len(group), group[0].id) for (stage, _), group in groups.items()]
    order = {stage: place for place, stage in enumerate(STAGES)}
    return tuple(sorted(found, key=lambda reject: (order.get(reject.stage, len(order)), -reject.count)))  # type: ignore[call-overload]


def _line(reason: str) -> str:
    line = (reason.strip().splitlines() or ["no reason given"])[0]
    return line if len(line) <= REASON_KEPT else line[: REASON_KEPT - 3] + "..."


def _kind(reason: str) -> str:
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e[+-]?\d+)?", "#", _line(reason))
