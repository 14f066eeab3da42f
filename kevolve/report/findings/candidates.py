"""Candidates: what was measured again on fresh data, so why the champion is this program and not another."""

from __future__ import annotations

from dataclasses import dataclass

from kevolve.report.findings.history import SearchHistory


@dataclass(frozen=True)
class Candidate:
    """A program that was measured again, or whose first look was the best. `confirmed` is None if it is not scored."""

    id: str
    found: float | None
    confirmed: float | None
    interval: tuple[float, float] | None
    outcome: str


def candidates(search: SearchHistory) -> tuple[Candidate, ...]:
    """Best first look first. What looked best is among them even if nothing was measured again."""
    names = dict.fromkeys([*search.confirmations, *([search.leader] if search.leader else [])])
    found = [_candidate(search, name) for name in names]
    return tuple(sorted(found, key=lambda candidate: -(candidate.found or 0.0)))


def _candidate(search: SearchHistory, id: str) -> Candidate:
    found, confirmation = search.entries[id].speedup, search.confirmations.get(id)
    if confirmation is None:
        return Candidate(id, found, None, None, "not measured again")
    verdict = confirmation.verdict
    if verdict["verdict"] != "Scored":
        stage = verdict.get("stage") or verdict.get("kind", "")
        return Candidate(id, found, None, None, f"{verdict['verdict']} on fresh data ({stage}): {verdict['reason']}")
    low, high = verdict["fitness"]["interval"]
    outcome = "champion: the best on fresh data" if id == search.champion else "confirmed, and not the best"
    return Candidate(id, found, verdict["fitness"]["speedup"], (low, high), outcome)
