"""Confirmation: who is champion, decided on fresh data, and written out.

The best of many noisy measurements is partly the luckiest, so the best few of a search are measured again: fresh
data, more pairs, holdout workloads too. The first whose new speedup holds is champion, at the new speedup.
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

CANDIDATES = 3

Again = Callable[[str], Awaitable[Judgement]]
Report = Callable[[str, Judgement, bool, str], None]


async def crown(state: SearchState, again: Again, report: Report, is_late: Callable[[], bool]) -> None:
    """Find the champion among the best few of a search, best first.

    `again` measures a program once more, `report` (program, judgement, is champion, why) stores what came of it.
    What was confirmed before is not measured again. When `is_late`, what has been confirmed so far must do.
    """
    candidates = state.best(CANDIDATES)
    for place, (program, found) in enumerate(candidates):
        following = candidates[place + 1][1] if place + 1 < len(candidates) else None
        judgement = state.confirmed.get(program)
        if judgement is None:
            if is_late() and state.confirmed:
                break
            judgement = await again(program)
            holds = _holds(found, judgement, following)
            report(program, judgement, holds, _reason(found, judgement, holds))
        elif _holds(found, judgement, following) and state.champion != program:
            report(program, judgement, True, "confirmed before, and now the best")
        if state.champion == program:
            return
    _fall_back(state, report)


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


def _holds(found: Judgement, confirmed: Judgement, following: Judgement | None) -> bool:
    """Does the second measurement bear the first out, or at least still beat what comes next?"""
    if not isinstance(confirmed.verdict, Scored) or not isinstance(found.verdict, Scored):
        return False
    now, then = confirmed.verdict.fitness, found.verdict.fitness
    beats_next = following is not None and now.speedup >= _speedup(following)
    return now.interval[1] >= then.interval[0] or beats_next


def _fall_back(state: SearchState, report: Report) -> None:
    """None held what it had promised: the best as it was confirmed is champion, at what it was confirmed at."""
    scored = [pair for pair in state.confirmed.items() if isinstance(pair[1].verdict, Scored)]
    if scored:
        program, judgement = max(scored, key=lambda pair: _speedup(pair[1]))
        if state.champion != program:
            report(program, judgement, True, f"the best of {len(scored)} that were measured again")


def _reason(found: Judgement, confirmed: Judgement, holds: bool) -> str:
    match confirmed.verdict:
        case Scored(fitness=fitness):
            word = "confirmed" if holds else "not borne out"
            return f"{word}: {fitness.speedup:.3f} on fresh data, {_speedup(found):.3f} when it was found"
        case Rejected(stage=stage, reason=reason):
            return f"rejected on fresh data ({stage}): {reason}"
        case Fault(kind=kind, reason=reason):
            return f"not confirmed, the machine failed ({kind}): {reason}"


def _speedup(judgement: Judgement) -> float:
    assert isinstance(judgement.verdict, Scored)
    return judgement.verdict.fitness.speedup


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
