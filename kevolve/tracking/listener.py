"""Tracking: a run as MLflow shows it, for people to review. It only listens, and it never stops a run.

One MLflow run per kevolve run, and below it one per operator and device with metrics by evaluation number; at the end
programs as models, champions in the registry, the report and the lineage. What is heard is kept until a quiet moment
(`flush`), because nothing of this may run while a program is timed, and there are so few of those moments that they
take at most `SHARE` of the time. Whatever goes wrong costs one warning and a few seconds; what could not be written is
tried once more at the end, and by `kevolve track` whenever somebody likes.

Only the configuration, events and programs are written: no environment variable, no password of an address.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kevolve.config import Config
from kevolve.progress import Progress
from kevolve.search.listener import Listener
from kevolve.tracking.address import redact
from kevolve.tracking.metrics import SearchMetrics
from kevolve.tracking.store import Point, Search, Store

if TYPE_CHECKING:
    from kevolve.events import Event
    from kevolve.summary import Summary

STATUS = {"finished": "FINISHED", "interrupted": "KILLED", "faults": "FAILED"}
SHARE = 0.01  # of the time, for writing while the run goes on
FIRST_WAIT_SECONDS = 60.0

Warn = Callable[[str], None]


class Tracking(Listener):
    """Writes a run to MLflow. `warn` shows one line to the user."""

    def __init__(self, config: Config, warn: Warn):
        self.config = config
        self.warn = warn
        self.progress = Progress()
        self.metrics: dict[Search, SearchMetrics] = {}
        self.pending: dict[Search | None, list[Point]] = {}
        self.store: Store | None = None
        self.has_failed = False
        self.seconds = 0.0  # spent on writing
        self._wait_until = 0.0
        self._started: float | None = None
        self._last = time.time()  # when the last event was

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
        if not self.has_failed and time.monotonic() >= self._wait_until:
            is_first = self.store is None  # importing and connecting come once
            took = self._guarded(self._write_metrics)
            self._wait_until = time.monotonic() + (FIRST_WAIT_SECONDS if is_first else took / SHARE)

    def closed(self, summary: Summary) -> None:
        self._guarded(lambda: self._finish(summary))

    def _gather(self, event: Event) -> None:
        self.progress.heard(event)
        self._last = event.time
        if event.kind == "opened":
            if self._started is None:
                self._started = event.data["started"]
            for metrics in self.metrics.values():
                metrics.session_opened()
        elif event.kind == "called":
            self._metrics(event).called(event.data["call"])
        elif event.kind == "proposed":
            self._metrics(event).proposed(event.data)
        elif event.kind == "judged" and not event.data["reused"]:
            search = self.progress.search(event.data)
            values = self._metrics(event).judged(event, search)
            self._point((search.operator, search.device), event.time, search.judged, values)
            self._point(None, event.time, self.progress.judged, self._totals())

    def _metrics(self, event: Event) -> SearchMetrics:
        return self.metrics.setdefault((event.data["operator"], event.data["device"]), SearchMetrics())

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

    def _guarded(self, work: Callable[[], object]) -> float:
        """Do the work whatever happens; returns the seconds that it took."""
        began = time.monotonic()
        try:
            work()
        except Exception as error:  # any: MLflow, its database, the network, the disk
            if not self.has_failed:
                self.warn(_warning(self.config, error))
            self.has_failed = True
        took = time.monotonic() - began
        self.seconds += took
        return took

    def _write_metrics(self) -> Store:
        store = self.store = self.store or Store(self.config)
        store.started = self._started
        store.begin()
        store.describe()
        for search in list(self.pending):
            store.log_points(store.run_of(search), self.pending[search])
            del self.pending[search]
        for search in self.progress.searches:
            store.run_of(search)
        return store

    def _finish(self, summary: Summary) -> None:
        from kevolve.report.findings.history import read_history
        from kevolve.tracking.results import log_results
        from kevolve.tracking.traces import log_traces

        store = self._write_metrics()
        history = read_history(Path(self.config.runs_dir) / summary.name)
        log_results(store, history)
        if self.config.tracking.traces:
            log_traces(store, history.folder)
        store.end(STATUS.get(summary.stopped, "FAILED"), self._last)


def _warning(config: Config, error: Exception) -> str:
    address = redact(config.tracking.uri)
    reason = (str(error).replace(config.tracking.uri, address).strip() or type(error).__name__).splitlines()[0]
    return (
        f"warning: MLflow at {address} cannot be written ({reason[:200]}). The run goes on without it and loses "
        f"nothing: python -m kevolve.track {config.name} sends it later. Type tracking.uri=... for another store, "
        "tracking=none for none."
    )
