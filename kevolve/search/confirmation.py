"""Confirmation: who is champion, decided on fresh data, and written out.

The best of many noisy measurements is partly the luckiest, so the best few of a search are measured again: fresh
data, more pairs, holdout workloads too. The best of the new speedups makes the champion, and is the one shown.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kevolve.durable import write_atomically
from kevolve.population import Population
from kevolve.verdict import Fault, Judgement, Rejected, Scored, to_json

if TYPE_CHECKING:
    from kevolve.search.lineage import Lineage, SearchState
    from kevolve.search.policies.policy import Search

Again = Callable[[str], Awaitable[Judgement]]
Report = Callable[[str, Judgement, bool, str], None]


async def crown(state: SearchState, again: Again, report: Report, is_late: Callable[[], bool], candidates: int) -> None:
    """Find the champion among the best `candidates` of a search.

    `again` measures a program once more, `report` (program, judgement, is champion, why) stores what came of it.
    What was confirmed before is not measured again, nor is what could not win even at the upper end of what it was
    found at. When `is_late`, what has been confirmed so far must do.
    """
    places = candidates
    for program, found in state.best(len(state.judgements)):
        leader = _leader(state)
        if not places or (is_late() and leader is not None):
            break
        if program in state.confirmed:
            places -= _is_scored(state.confirmed[program])
        elif leader is not None and _interval(found)[1] < leader[1]:
            places -= 1
        else:
            judgement = await again(program)
            leads = _is_scored(judgement) and (leader is None or _speedup(judgement) > leader[1])
            report(program, judgement, leads, _reason(found, judgement, leader))
            places -= not isinstance(judgement.verdict, Rejected)  # one that was rejected takes nobody's place
    leader = _leader(state)
    if leader is not None and state.champion != leader[0]:
        report(leader[0], state.confirmed[leader[0]], True, "the best of those confirmed")


def write_champions(population: Population, lineage: Lineage) -> None:
    """Every champion as a file with its record: `champions/<operator>/<device>/` in the run's folder."""
    from kevolve.languages.registry import language

    for search, state in lineage.searches.items():
        if state.champion is None:
            continue
        record = state.programs[state.champion]
        folder = population.folder / "champions" / search.operator / search.device
        write_atomically(
            folder / f"program{language(record['language']).suffix}", population.text(record["source"]).encode()
        )
        content = json.dumps(_record(population.folder.name, search, state, lineage), indent=1) + "\n"
        write_atomically(folder / "record.json", content.encode())


def judgement_record(judgement: Judgement) -> dict[str, Any]:
    """A judgement as plain JSON."""
    return {**asdict(judgement), "verdict": to_json(judgement.verdict)}


def _leader(state: SearchState) -> tuple[str, float] | None:
    """The program that confirmed best, and its confirmed speedup."""
    scored = [(program, _speedup(judgement)) for program, judgement in state.confirmed.items() if _is_scored(judgement)]
    return max(scored, key=lambda pair: pair[1], default=None)


def _reason(found: Judgement, confirmed: Judgement, leader: tuple[str, float] | None) -> str:
    match confirmed.verdict:
        case Scored(fitness=fitness):
            word = "confirmed" if fitness.interval[1] >= _interval(found)[0] else "not borne out"
            beaten = f"; {leader[1]:.3f} leads" if leader is not None and leader[1] >= fitness.speedup else ""
            return f"{word}: {fitness.speedup:.3f} on fresh data, {_speedup(found):.3f} when it was found{beaten}"
        case Rejected(stage=stage, reason=reason):
            return f"rejected on fresh data ({stage}): {reason}"
        case Fault(kind=kind, reason=reason):
            return f"not confirmed, the machine failed ({kind}): {reason}"


def _is_scored(judgement: Judgement) -> bool:
    return isinstance(judgement.verdict, Scored)


def _speedup(judgement: Judgement) -> float:
    assert isinstance(judgement.verdict, Scored)
    return judgement.verdict.fitness.speedup


def _interval(judgement: Judgement) -> tuple[float, float]:
    assert isinstance(judgement.verdict, Scored)
    return judgement.verdict.fitness.interval


def _record(run: str, search: Search, state: SearchState, lineage: Lineage) -> dict[str, Any]:
    assert state.champion is not None
    return {
        "run": run,
        "seed": lineage.config["seed"],
        "operator": search.operator,
        "device": search.device,
        "measured": datetime.fromtimestamp(state.crowned, UTC).isoformat(timespec="seconds"),
        "program": state.programs[state.champion],
        "confirmed": judgement_record(state.confirmed[state.champion]),
        "found": judgement_record(state.judgements[state.champion]),
        "environment": lineage.environment.get(search.device, {}),
    }
