"""Blocks about what was tried before: the parents' own line, their other children, and what failed elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from kevolve.propose.context.fitting import Block
from kevolve.propose.history import Attempt, History
from kevolve.verdict import Fault, Rejected, Scored

_REASON = 160


def relatives(history: History, memory: str) -> list[Block]:
    """The three blocks, as far as `memory` (both, parent, siblings, none) wants them."""
    nobody: tuple[Attempt, ...] = ()
    line = history.ancestors if memory in ("both", "parent") else nobody
    others = history.siblings if memory in ("both", "siblings") else nobody
    failed = history.failed if memory != "none" else nobody
    return [
        Block("ancestors", "# How the program came about, the latest step first", told(line), keep=3),
        Block("siblings", "# Other changes that were made to it, the latest first", told(others), keep=2),
        Block("failed", "# What failed elsewhere; do not try it again", told(failed), keep=1),
    ]


def told(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    """A line for each attempt; of equal lines the first."""
    return tuple(dict.fromkeys(f"- {attempt.idea}: {_outcome(attempt)}" for attempt in attempts))


def _outcome(attempt: Attempt) -> str:
    match attempt.verdict:
        case Scored(fitness=fitness):
            before = f", from {attempt.before:.2f}x" if attempt.before is not None else ""
            return f"{fitness.speedup:.2f}x{before}"
        case Rejected(stage=stage, reason=reason):
            return f"rejected ({stage}): {reason.splitlines()[0][:_REASON] if reason else ''}"
        case Fault():
            return "not judged"
