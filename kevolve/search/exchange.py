"""Exchange: what crosses between islands, and what is done about one that finds nothing better any more.

Every `migration_every` verdicts of a search its islands exchange their best. An island that has heard `stagnant_after`
verdicts since its last better program is stirred: first it widens (more drafts), if that does not help it gets the best
of another island, then it starts again from nothing, and so on round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_args

from kevolve.search.lineage import arrival_of, arrival_record
from kevolve.search.policies.migration import ring
from kevolve.search.policies.policy import Arrival, Member, Remedy, Search, Stirred

if TYPE_CHECKING:
    from kevolve.config import PolicyConfig
    from kevolve.search.island import Islands
    from kevolve.search.lineage import Lineage, SearchState

Store = Callable[[str, Mapping[str, Any]], None]

REMEDIES: tuple[Remedy, ...] = get_args(Remedy)


class Exchange:
    """Between the islands of every search. `store` appends an event, and the lineage has heard it when that returns."""

    def __init__(self, policy: PolicyConfig, lineage: Lineage, islands: Islands, store: Store) -> None:
        self._policy = policy
        self._lineage = lineage
        self._islands = islands
        self._store = store
        self._busy: set[Search] = set()

    async def where_due(self) -> None:
        """Whatever is due in any search now."""
        for search, state in self._lineage.searches.items():
            if search in self._busy:
                continue
            self._busy.add(search)
            try:
                if self._is_migration_due(state):
                    await self._migrate(search)
                for island, trail in enumerate(state.trails):
                    if 0 < self._policy.stagnant_after <= trail.stale:
                        await self._stir(search, island, REMEDIES[trail.stirred % len(REMEDIES)])
            finally:
                self._busy.discard(search)

    def _is_migration_due(self, state: SearchState) -> bool:
        every = self._policy.migration_every
        return every > 0 and state.told // every > state.migrations

    async def _migrate(self, search: Search) -> None:
        moves = ring(await self._islands.members(search), self._policy.migrants, self._policy.population)
        records = [{"source": move.source, "target": move.target, **arrival_record(move.arrival)} for move in moves]
        self._store("migrated", {"operator": search.operator, "device": search.device, "moves": records})
        # All are sent before anything is awaited, so that islands hear in the order of the events.
        await asyncio.gather(*[self._islands.hear(move.target, search, move.arrival) for move in moves])

    async def _stir(self, search: Search, island: int, remedy: Remedy) -> None:
        guest = await self._guest(search, island) if remedy == "import" else None
        if remedy == "import" and guest is None:
            remedy = "restart"  # there is nobody to come
        place = {"operator": search.operator, "device": search.device, "island": island}
        record = arrival_record(guest) if guest is not None else None
        stale = self._lineage.state(search).trails[island].stale
        self._store("stirred", {**place, "remedy": remedy, "guest": record, "verdicts": stale})
        heard = Stirred(remedy, arrival_of(record) if record is not None else None)
        await self._islands.hear(island, search, heard)

    async def _guest(self, search: Search, island: int) -> Arrival | None:
        """The best program of another island that the island does not have, for its worst where it is full."""
        members = await self._islands.members(search)
        own = members[island]
        at_home = {member.program for member in own}
        others = [m for number, found in enumerate(members) if number != island for m in found]
        foreign = [member for member in others if member.program not in at_home]
        if not foreign:
            return None

        def fitness(member: Member) -> tuple[float, float]:
            return member.fitness

        is_full = len(own) >= self._policy.population
        return Arrival(max(foreign, key=fitness), min(own, key=fitness).program if is_full else None)
