"""History: what became of relatives of a request's parents, and what failed, for proposers that learn from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kevolve.verdict import Judgement, Scored, Verdict

RELATIVES = 8  # of each kind, at most
FAILURES = 16

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Attempt:
    """One program that was tried: what it was meant to do, and what came of it. `before` is its parent's speedup."""

    program: str
    idea: str
    verdict: Verdict
    before: float | None = None

    @property
    def speedup(self) -> float | None:
        return self.verdict.fitness.speedup if isinstance(self.verdict, Scored) else None

    @property
    def is_loss(self) -> bool:
        """Rejected, or slower than its parent."""
        return self.speedup is None or (self.before is not None and self.speedup < self.before)


@dataclass(frozen=True)
class History:
    """`ancestors` nearest first, `siblings` (other children of the parents) and `failed` (of all) newest first."""

    ancestors: tuple[Attempt, ...] = ()
    siblings: tuple[Attempt, ...] = ()
    failed: tuple[Attempt, ...] = ()
    best_speedup: float = 0.0


@dataclass(frozen=True)
class Past:
    """A search's programs, their judgements and their children, each by id, oldest first."""

    programs: Mapping[str, Record]
    judgements: dict[str, Judgement]
    children: Mapping[str, Sequence[str]]
    best_speedup: float = 0.0

    def attempt(self, id: str) -> Attempt:
        """One program that was judged, beside the best of its parents."""
        record = self.programs[id]
        above = [_speedup(self.judgements.get(parent)) for parent in record["parents"]]
        before = max((speedup for speedup in above if speedup is not None), default=None)
        return Attempt(id, idea_of(record), self.judgements[id].verdict, before)


def history_of(past: Past, parents: tuple[str, ...]) -> History:
    """The history that a child of `parents` has. Takes the same time however long the search is."""
    line = [id for id in _ancestors(past.programs, parents) if id in past.judgements]
    family = {id: None for parent in parents for id in past.children.get(parent, ()) if id in past.judgements}
    siblings = [past.attempt(id) for id in reversed(family) if id not in parents]
    failed: list[Attempt] = []
    for id in reversed(past.judgements):
        if id in family or id in parents or id in line or not past.programs[id]["parents"]:
            continue
        if (tried := past.attempt(id)).is_loss:
            failed.append(tried)
        if len(failed) == FAILURES:
            break
    ancestors = tuple(past.attempt(id) for id in line)
    return History(ancestors, tuple(siblings[:RELATIVES]), tuple(failed), past.best_speedup)


def idea_of(record: Record) -> str:
    """What a program was meant to do, in a line: its proposer's words, or the names of its edits."""
    origin = record["origin"]
    return str(origin.get("idea") or ", ".join(origin.get("edits", ())) or origin.get("kind") or "starting program")


def _ancestors(programs: Mapping[str, Record], parents: tuple[str, ...]) -> list[str]:
    """The parents' parents and so on, nearest first, each once."""
    line: dict[str, None] = {}
    pending = [above for id in parents if id in programs for above in programs[id]["parents"]]
    while pending and len(line) < RELATIVES:
        id = pending.pop(0)
        if id in line or id in parents or id not in programs:
            continue
        line[id] = None
        pending += programs[id]["parents"]
    return list(line)


def _speedup(judgement: Judgement | None) -> float | None:
    verdict = judgement.verdict if judgement is not None else None
    return verdict.fitness.speedup if isinstance(verdict, Scored) else None
