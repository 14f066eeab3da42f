"""The story of a run for an agent: its best programs, and how a program came about."""

from __future__ import annotations

from pathlib import Path

from kevolve.errors import UsageError
from kevolve.events import read_events
from kevolve.population import read_text
from kevolve.propose.context.relatives import told
from kevolve.propose.history import Attempt, history_of, idea_of
from kevolve.search.lineage import Lineage, SearchState
from kevolve.verdict import Scored

_BEST = 5


def lineage_of(folder: Path) -> Lineage:
    """The run's state, by its events."""
    lineage: Lineage | None = None
    for event in read_events(folder / "events.jsonl"):
        if lineage is None:
            lineage = Lineage(event.data["config"]["policy"]["islands"], lambda name: read_text(folder, name))
        lineage.heard(event)
    if lineage is None:
        raise UsageError(f"{folder}: nothing has happened in this run yet.")
    return lineage


def best_of(folder: Path) -> str:
    """The best programs of every search, in lines."""
    lines = []
    for search, state in lineage_of(folder).searches.items():
        lines.append(f"{search}: {state.evaluations} judged")
        for id, judgement in state.best(_BEST):
            assert isinstance(judgement.verdict, Scored)
            lines.append(f"- {id}: {judgement.verdict.fitness.speedup:.2f}x, {idea_of(state.programs[id])}")
    return "\n".join(lines)


def story_of(folder: Path, program: str) -> str:
    """A program's source, its verdict, and those of its ancestors and of other children of its parents."""
    lineage = lineage_of(folder)
    for search, state in lineage.searches.items():
        if program in state.programs:
            source = lineage.program(search.operator, state.programs[program]).source
            return f"{_tried(state, program)}\n\n{source}"
    raise UsageError(f"no program of this run is called {program}. Ask for the best programs to see some.")


def _tried(state: SearchState, program: str) -> str:
    record = state.programs[program]
    itself = (
        [Attempt(program, idea_of(record), state.judgements[program].verdict)] if program in state.judgements else []
    )
    history = history_of(state.past, (program,))
    sections = {"itself": itself, "ancestors, nearest first": history.ancestors, "its children": history.siblings}
    return "\n".join(f"{title}:\n" + "\n".join(told(attempts)) for title, attempts in sections.items() if attempts)
