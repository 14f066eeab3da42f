"""Islands as Ray actors. An actor hosts one island of every search; it only asks and is told.

The events are the truth and the islands follow them: whatever an island hears is in the lineage first, so an island
that dies is replaced by a new one which is told the same again, and nothing is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kevolve.errors import FaultsStopped
from kevolve.propose.proposer import Request
from kevolve.search.cluster import is_alive
from kevolve.search.policies.policy import Arrival, Heard, Member, Policy, Search, Stirred, Told
from kevolve.search.policies.registry import policy
from kevolve.search.proposing import in_one_line

if TYPE_CHECKING:
    from kevolve.config import PolicyConfig

REBUILDS = 3  # in a row, of one island, before the cluster is given up
ANSWER_SECONDS = 120.0  # an island answers in milliseconds; this is a cluster that has stopped


@dataclass(frozen=True)
class Memory:
    """What an island has heard about one search, in order, and how often it has asked."""

    heard: Sequence[Heard]
    asks: int


Memories = Mapping[Search, Memory]


class Island:
    """Island number `number` of every search of a run."""

    def __init__(self, number: int, config: PolicyConfig, run_seed: int, memories: Memories) -> None:
        self._policies: dict[Search, Policy] = {}
        for search, memory in memories.items():
            identity = f"{run_seed}/{search.operator}/{search.device}/{number}"
            self._policies[search] = policy(config, identity)
            for message in memory.heard:
                self.hear(search, message)
            self._policies[search].asks = memory.asks

    def ask(self, search: Search) -> tuple[Request, int]:
        """A request, and how often the island has then asked."""
        chosen = self._policies[search]
        return chosen.ask(), chosen.asks

    def hear(self, search: Search, message: Heard) -> None:
        """A verdict, a migrant, or what to do about stagnation."""
        match message:
            case Told():
                self._policies[search].tell(message)
            case Arrival():
                self._policies[search].welcome(message)
            case Stirred():
                self._policies[search].stir(message)

    def members(self, search: Search) -> list[Member]:
        return self._policies[search].members()


class Islands(Protocol):
    """All islands of a run, as the driver sees them."""

    async def ask(self, number: int, search: Search) -> tuple[Request, int]: ...

    def hear(self, number: int, search: Search, message: Heard) -> Awaitable[None]: ...

    async def members(self, search: Search) -> list[list[Member]]: ...


class LocalIslands:
    """Islands in the driver's own process, for what is over before an actor has started."""

    def __init__(self, config: PolicyConfig, run_seed: int, remember: Callable[[int], Memories]) -> None:
        self.islands = [Island(number, config, run_seed, remember(number)) for number in range(config.islands)]

    async def ask(self, number: int, search: Search) -> tuple[Request, int]:
        return self.islands[number].ask(search)

    async def hear(self, number: int, search: Search, message: Heard) -> None:
        self.islands[number].hear(search, message)

    async def members(self, search: Search) -> list[list[Member]]:
        return [island.members(search) for island in self.islands]


class RayIslands:
    """Islands in actors; dead ones are replaced as they are noticed.

    `remember` gives an island's memories as the events have them now. It runs in the same breath as the new actor's
    start, so that no message can fall between: what was stored before is in the memories, what comes after is sent.
    """

    def __init__(self, config: PolicyConfig, run_seed: int, remember: Callable[[int], Memories]) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._config, self._run_seed, self._remember = config, run_seed, remember
        # Islands take no core of their own, and are not restarted by Ray: it would bring them back without memory.
        # They are beside the driver: a node that is lost takes none with it, and none is on a node without kevolve.
        beside = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        options: Any = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": beside}
        self._actor: Any = ray.remote(**options)(Island)
        self._rebuilt = [0] * config.islands
        self.handles: list[Any] = [self._start(number) for number in range(config.islands)]

    async def ask(self, number: int, search: Search) -> tuple[Request, int]:
        answer: tuple[Request, int] = await self._answer(number, "ask", search)
        return answer

    def hear(self, number: int, search: Search, message: Heard) -> Awaitable[None]:
        """Sends at once, so that an island hears in the order of the events; await it to know that it was heard."""
        island = self.handles[number]
        return self._heard(number, island, island.hear.remote(search, message))

    async def members(self, search: Search) -> list[list[Member]]:
        return [await self._answer(number, "members", search) for number in range(len(self.handles))]

    async def _heard(self, number: int, island: Any, reference: Any) -> None:
        from ray.exceptions import RayActorError

        try:
            await _within(reference, number)
        except RayActorError as error:
            # Not sent again: the message is in the lineage, so a replacement knows it already.
            self._replace(number, island, error)

    async def _answer(self, number: int, method: str, *arguments: Any) -> Any:
        from ray.exceptions import RayActorError

        while True:
            island = self.handles[number]
            try:
                answer = await _within(getattr(island, method).remote(*arguments), number)
            except RayActorError as error:
                self._replace(number, island, error)
            else:
                self._rebuilt[number] = 0
                return answer

    def _replace(self, number: int, dead: Any, error: Exception) -> None:
        if self.handles[number] is not dead:
            return
        self._rebuilt[number] += 1
        # Without a live node a new actor would stay pending for ever instead of failing.
        if self._rebuilt[number] > REBUILDS or not is_alive():
            raise FaultsStopped(f"island {number} died and cannot be replaced: {in_one_line(error)}") from None
        self.handles[number] = self._start(number)

    def _start(self, number: int) -> Any:
        return self._actor.remote(number, self._config, self._run_seed, self._remember(number))


async def _within(reference: Any, number: int) -> Any:
    """The answer, or FaultsStopped if there is none in a time in which a living island has answered long since."""

    async def answer() -> Any:
        return await reference

    try:
        return await asyncio.wait_for(answer(), ANSWER_SECONDS)
    except TimeoutError:
        raise FaultsStopped(f"island {number} did not answer within {ANSWER_SECONDS:.0f} s: Ray is stuck.") from None
