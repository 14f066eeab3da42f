"""Asking: which search and island a lane works for next, and the request that comes of it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from kevolve.propose.proposer import Request
from kevolve.search.exchange import Exchange, Store
from kevolve.search.lineage import Lineage, Step
from kevolve.search.policies.policy import Search
from kevolve.search.repairing import to_repair

if TYPE_CHECKING:
    from kevolve.config import Config
    from kevolve.search.island import Islands
    from kevolve.search.stopping import Stopping


class Asking:
    """Hands out steps. `repairs` is how often a rejected program is given back to who wrote it."""

    def __init__(
        self,
        config: Config,
        lineage: Lineage,
        stopping: Stopping,
        islands: Islands,
        store: Store,
        in_quiet_moment: Callable[[], None],
        repairs: int,
    ) -> None:
        self.config = config
        self.lineage = lineage
        self.stopping = stopping
        self.islands = islands
        self.exchange = Exchange(config.policy, lineage, islands, store)
        self.store = store
        self.in_quiet_moment = in_quiet_moment
        self.repairs = repairs
        self.asking: Counter[Search] = Counter()
        unfinished = [step for state in lineage.searches.values() for step in state.open.values()]
        self.unfinished = deque(sorted(unfinished, key=lambda step: step.asked or 0))

    async def next_step(self, lane: int) -> Step | None:
        """A step that an earlier session left open, or else a new one; None if there is nothing to ask for now."""
        if self.unfinished:
            return self.unfinished.popleft()
        if self.stopping.is_over():
            return None
        self.in_quiet_moment()
        await self.exchange.where_due()
        return await self.ask(lane)

    async def ask(self, lane: int) -> Step | None:
        """Ask the next island of the search that has asked least: searches and islands take turns."""
        wanting = [
            search
            for search, state in self.lineage.searches.items()
            if self.stopping.wants_more(state, self.asking[search])
        ]
        if not wanting or self.stopping.reason is not None:
            return None
        if (lost := to_repair(self.lineage, wanting, self.repairs, self.config.seed)) is not None:
            return self.begin(lane, *lost)
        search = min(wanting, key=self.asks)
        island = self.asks(search) % self.config.policy.islands
        self.asking[search] += 1
        try:
            request, asks = await self.islands.ask(island, search)
        finally:
            self.asking[search] -= 1
        return self.begin(lane, search, island, request, asks)

    def begin(self, lane: int, search: Search, island: int, request: Request, asks: int) -> Step:
        """Store a request; its step is then open."""
        asked = self.lineage.asked + 1
        place = {"lane": lane, "asked": asked, "operator": search.operator, "device": search.device, "island": island}
        self.store("asked", {**place, "request": asdict(request), "random_state": asks})
        return self.lineage.state(search).open[asked]

    def asks(self, search: Search) -> int:
        """How often the search has asked, lanes that are just asking included."""
        return sum(self.lineage.state(search).asks) + self.asking[search]
