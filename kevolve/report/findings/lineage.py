"""Lineage: how the shown program came about, step by step from a starting program, with what each step changed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from kevolve.report.findings.history import Entry, History, SearchHistory

DIFF_LINES = 4000  # of both programs together: comparing more takes seconds
DIFF_CHARACTERS = 400_000
KEPT_CHARACTERS = 1_500_000  # of all diffs of a search: the page is to stay small


@dataclass(frozen=True)
class Step:
    """One program on the way. `gain` is its speedup over its first parent's, by their first looks.

    `diff` is unified, without its two head lines; `note` says why there is none.
    """

    id: str
    parents: tuple[str, ...]
    proposer: str
    why: str
    evaluation: int
    at: float
    outcome: str
    reason: str
    reused: bool
    speedup: float | None
    interval: tuple[float, float] | None
    gain: float | None
    diff: str
    note: str


def lineage(history: History, search: SearchHistory, last: Entry) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """The way to `last` along first parents, oldest first, and the ids of all its ancestors, itself included."""
    way = list(_way(search, last))[::-1]
    room = KEPT_CHARACTERS
    steps = []
    for entry in way:
        parent = search.entries.get(entry.parents[0]) if entry.parents else None
        diff, note = _diff(history, parent, entry)
        if len(diff) > room:
            diff, note = "", "left out to keep this page small"
        room -= len(diff)
        steps.append(_step(entry, parent, diff, note))
    return tuple(steps), tuple(_ancestors(search, last))


def _way(search: SearchHistory, entry: Entry) -> Iterator[Entry]:
    seen: set[str] = set()
    step: Entry | None = entry
    while step is not None and step.id not in seen:
        seen.add(step.id)
        yield step
        step = search.entries.get(step.parents[0]) if step.parents else None


def _ancestors(search: SearchHistory, entry: Entry) -> Iterator[str]:
    waiting, seen = [entry.id], set()
    while waiting:
        id = waiting.pop()
        if id in seen or id not in search.entries:
            continue
        seen.add(id)
        yield id
        waiting += search.entries[id].parents


def _step(entry: Entry, parent: Entry | None, diff: str, note: str) -> Step:
    gain = entry.speedup / parent.speedup if parent and parent.speedup and entry.speedup else None
    return Step(
        entry.id, entry.parents, entry.proposer, entry.why, entry.number, entry.at, entry.outcome, entry.reason,
        entry.reused, entry.speedup, entry.interval, gain, diff, note,
    )  # fmt: skip


def _diff(history: History, parent: Entry | None, child: Entry) -> tuple[str, str]:
    """The diff, or why there is none."""
    if not child.parents:
        return "", "a starting program"
    if parent is None:
        return "", "its parent is not in this run's events"
    texts = history.source(parent), history.source(child)
    if texts[0] is None or texts[1] is None:
        return "", f"the source of {parent.id if texts[0] is None else child.id} cannot be read (lost or damaged)"
    lines = texts[0].splitlines(), texts[1].splitlines()
    if len(lines[0]) + len(lines[1]) > DIFF_LINES or len(texts[0]) + len(texts[1]) > DIFF_CHARACTERS:
        return "", f"too large to compare: {len(lines[1])} lines, {len(texts[1]) / 1e6:.1f} MB"
    return "\n".join(list(difflib.unified_diff(*lines, lineterm=""))[2:]), ""
