"""How far a run is, as figures: heard from events, shown by the screen and logged by tracking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kevolve.verdict import Fault, Fitness, Rejected, Scored, Verdict, from_json

if TYPE_CHECKING:
    from kevolve.events import Event


@dataclass
class SearchProgress:
    """One operator on one device. `judged` counts new judgements, which are what the budget buys."""

    operator: str
    device: str
    judged: int = 0
    scored: int = 0
    reused: int = 0
    faults: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    best: Fitness | None = None
    busy_seconds: float = 0.0

    @property
    def scored_share(self) -> float | None:
        """Scored programs among those judged without a fault; None before the first."""
        judged = self.scored + sum(self.rejected.values())
        return self.scored / judged if judged else None

    def take(self, data: Mapping[str, Any], verdict: Verdict) -> None:
        """Count one `judged` event."""
        if data["reused"]:
            self.reused += 1
            return
        self.judged = max(self.judged, data["number"] or 0)
        self.busy_seconds += data["judgement"]["seconds"]
        match verdict:
            case Scored(fitness=fitness):
                self.scored += 1
                if self.best is None or fitness.speedup > self.best.speedup:
                    self.best = fitness
            case Rejected(stage=stage):
                self.rejected[stage] += 1
            case Fault():
                self.faults += 1


@dataclass
class Progress:
    """The whole run."""

    searches: dict[tuple[str, str], SearchProgress] = field(default_factory=dict)
    tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0  # from the beginning of this session to its last event
    earlier_seconds: float = 0.0  # what earlier sessions of the run took
    earlier_judged: int = 0
    doubts: dict[tuple[str, str], str] = field(default_factory=dict)  # why a search's last candidate is no champion

    def search(self, data: Mapping[str, Any]) -> SearchProgress:
        """The search that an event is about."""
        name = (data["operator"], data["device"])
        return self.searches.setdefault(name, SearchProgress(*name))

    def heard(self, event: Event) -> None:
        """Take an event into account."""
        self.seconds = event.elapsed
        if event.kind == "surveyed":
            self.search(event.data)
        elif event.kind == "called":
            call = event.data["call"]
            self.tokens += call["prompt_tokens"] + call["reply_tokens"]
            self.cost_usd += call["cost_usd"] or 0.0
        elif event.kind == "proposed":
            self.tokens += event.data["tokens"]
            self.cost_usd += event.data["cost_usd"]
        elif event.kind == "judged":
            self.search(event.data).take(event.data, from_json(event.data["judgement"]["verdict"]))
        elif event.kind == "confirmed":
            self.doubts[event.data["operator"], event.data["device"]] = event.data["reason"]

    def recalled(self, events: Iterable[Event]) -> None:
        """Count the events of earlier sessions, whose time is not this session's."""
        for event in events:
            if event.kind == "opened":
                self._end_session()
            self.heard(event)
        self._end_session()
        self.earlier_judged = self.judged
        for search in self.searches.values():
            search.busy_seconds = 0.0

    def _end_session(self) -> None:
        self.earlier_seconds += self.seconds
        self.seconds = 0.0

    @property
    def judged(self) -> int:
        """New judgements of all searches, earlier sessions included."""
        return sum(search.judged for search in self.searches.values())

    def busy_share(self, device: str) -> float:
        """Share of the time so far in which the device was judging programs."""
        busy = sum(search.busy_seconds for search in self.searches.values() if search.device == device)
        return min(1.0, busy / self.seconds) if self.seconds else 0.0
