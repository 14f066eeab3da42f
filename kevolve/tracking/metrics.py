"""The metrics of a search after each judgement, from events alone: the same events always give the same points.

Their names say that these are first looks, for beside them in MLflow stands what was confirmed (`models.py`).
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

from kevolve.progress import SearchProgress
from kevolve.verdict import Rejected, Scored, from_json

if TYPE_CHECKING:
    from kevolve.events import Event

RECENT = 32  # scored programs over which diversity is taken


class SearchMetrics:
    """What one search's points need to remember."""

    def __init__(self) -> None:
        self._speedups: list[float] = []  # in order
        self._recent: deque[tuple[str, ...]] = deque(maxlen=RECENT)
        self._edits: dict[str, tuple[str, ...]] = {}  # of programs without a verdict
        self._busy_seconds = 0.0  # of this session
        self._best_worst = 0.0
        self._tokens = 0
        self._cost_usd = 0.0

    def session_opened(self) -> None:
        """Time starts anew, and with it the share of it that the device is busy."""
        self._busy_seconds = 0.0

    def called(self, call: Mapping[str, Any]) -> None:
        """A model was called; what it costs is not always known."""
        self._tokens += call["prompt_tokens"] + call["reply_tokens"]
        self._cost_usd += call["cost_usd"] or 0.0

    def proposed(self, data: Mapping[str, Any]) -> None:
        self._tokens += data["tokens"]
        self._cost_usd += data["cost_usd"]
        origin = data["program"]["origin"]
        genome = origin.get("genome", {}).get("edits", ())
        edits = [f"{gene['edit']}@{gene['site']}" for gene in genome] or map(str, origin.get("edits", ()))
        self._edits[data["program"]["id"]] = tuple(sorted(edits))

    def judged(self, event: Event, search: SearchProgress) -> dict[str, float]:
        """The metrics after a new judgement, which `search` has counted already."""
        data = event.data
        self._busy_seconds += data["judgement"]["seconds"]
        edits = self._edits.pop(data["program"], ())
        values: dict[str, float] = {
            "scored": search.scored,
            "faults": search.faults,
            "tokens": self._tokens,
            "cost_usd": self._cost_usd,
            "device_busy_share": min(1.0, self._busy_seconds / event.elapsed) if event.elapsed > 0 else 0.0,
        }
        if search.scored_share is not None:
            values["scored_share"] = search.scored_share
        match from_json(data["judgement"]["verdict"]):
            case Scored(fitness=fitness):
                is_best = not self._speedups or fitness.speedup >= self._speedups[-1]
                self._best_worst = fitness.worst if is_best else self._best_worst
                insort(self._speedups, fitness.speedup)
                self._recent.append(edits)
                told = {"speedup": fitness.speedup, "worst_speedup": fitness.worst, "roofline": fitness.roofline}
                values |= {f"first_look_{name}": value for name, value in told.items()}
                values["diversity"] = len(set(self._recent)) / len(self._recent)
            case Rejected(stage=stage):
                values[f"rejected_{stage}"] = search.rejected[stage]
        if self._speedups:
            values |= {"best_first_look": self._speedups[-1], "best_first_look_worst": self._best_worst}
            values["median_first_look"] = median(self._speedups)
        return values
