"""Tracking: a run as MLflow shows it, for people to review. It only listens, and it never stops a run.

One MLflow run per kevolve run, and below it one per operator and device with metrics by evaluation number. What is
heard is kept until a quiet moment (`flush`), because nothing of this may run while a program is timed. Whatever goes
wrong costs one warning and a few seconds; what could not be written is tried once more at the end.

Only the configuration, events and programs are written: no environment variable, no password of an address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kevolve.config import Config
from kevolve.population import read_text
from kevolve.progress import Progress, SearchProgress
from kevolve.search.listener import Listener
from kevolve.tracking.address import redact
from kevolve.tracking.store import Point, Search, Store
from kevolve.verdict import Rejected, Scored, from_json

if TYPE_CHECKING:
    from kevolve.events import Event
    from kevolve.summary import Summary

STATUS = {"finished": "FINISHED", "interrupted": "KILLED", "faults": "FAILED"}

Warn = Callable[[str], None]


class Tracking(Listener):
    """Writes a run to MLflow. `warn` shows one line to the user."""

    def __init__(self, config: Config, warn: Warn):
        self.config = config
        self.warn = warn
        self.progress = Progress()
        self.programs: dict[str, Mapping[str, Any]] = {}
        self.pending: dict[Search | None, list[Point]] = {}
        self.store: Store | None = None
        self.has_failed = False

    def recalled(self, events: Iterable[Event]) -> None:
        """Points of earlier sessions are gathered again: MLflow keeps each once, and one may have died before it."""
        past = list(events)
        for event in past:
            self._gather(event)
        self.progress = Progress()
        self.progress.recalled(past)

    def heard(self, event: Event) -> None:
        self._gather(event)

    def flush(self) -> None:
        if not self.has_failed:
            self._guarded(self._write_metrics)

    def closed(self, summary: Summary) -> None:
        self._guarded(lambda: self._finish(summary))

    def _gather(self, event: Event) -> None:
        self.progress.heard(event)
        if event.kind == "proposed":
            program = event.data["program"]
            self.programs.setdefault(program["id"], program)
        elif event.kind == "judged" and not event.data["reused"]:
            search = self.progress.search(event.data)
            self._point((search.operator, search.device), event.time, search.judged, _points(event, search))
            self._point(None, event.time, self.progress.judged, self._totals())

    def _point(self, search: Search | None, moment: float, step: int, values: Mapping[str, float]) -> None:
        points = self.pending.setdefault(search, [])
        points += [(name, value, step, moment) for name, value in values.items()]

    def _totals(self) -> dict[str, float]:
        searches = self.progress.searches.values()
        return {
            "judged": sum(search.scored + sum(search.rejected.values()) for search in searches),
            "scored": sum(search.scored for search in searches),
            "faults": sum(search.faults for search in searches),
            "reused": sum(search.reused for search in searches),
            "tokens": self.progress.tokens,
            "cost_usd": self.progress.cost_usd,
        }

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:  # any: MLflow, its database, the network, the disk
            if not self.has_failed:
                self.warn(_warning(self.config, error))
            self.has_failed = True

    def _write_metrics(self) -> Store:
        store = self.store = self.store or Store(self.config)
        store.begin()
        store.describe()
        for search in list(self.pending):
            store.log_points(store.run_of(search), self.pending[search])
            del self.pending[search]
        for search in self.progress.searches:
            store.run_of(search)
        return store

    def _finish(self, summary: Summary) -> None:
        store = self._write_metrics()
        folder = Path(self.config.runs_dir) / summary.name
        store.log_text(store.run_of(None), summary.to_json(), "summary.json")
        for result in summary.results:
            if result.best is None:
                continue
            program = self.programs[result.best.program]
            store.log_best(result, result.best, program, read_text(folder, program["source"]))
        store.end(STATUS.get(summary.stopped, "FAILED"))


def _points(event: Event, search: SearchProgress) -> dict[str, float]:
    """The metrics after one judgement."""
    values: dict[str, float] = {"scored": search.scored, "faults": search.faults}
    if search.scored_share is not None:
        values["scored_share"] = search.scored_share
    if search.best is not None:
        values["best_speedup"] = search.best.speedup
    match from_json(event.data["judgement"]["verdict"]):
        case Scored(fitness=fitness):
            values |= {"speedup": fitness.speedup, "worst_speedup": fitness.worst, "roofline": fitness.roofline}
        case Rejected(stage=stage):
            values[f"rejected_{stage}"] = search.rejected[stage]
    return values


def _warning(config: Config, error: Exception) -> str:
    address = redact(config.tracking.uri)
    reason = (str(error).replace(config.tracking.uri, address).strip() or type(error).__name__).splitlines()[0]
    return (
        f"warning: MLflow at {address} cannot be written ({reason[:200]}). The run goes on without it and loses "
        "nothing. Type tracking.uri=... for another store, tracking=none for none."
    )
