"""Workers: where islands live and proposers run. Ray, or this process where nothing takes any time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from kevolve.config import ClusterConfig, Config, PolicyConfig
from kevolve.propose.proposer import Context, Proposal, Proposer, Refusal, Request, Resident, is_resident
from kevolve.search.cluster import cluster, cores, loss
from kevolve.search.island import Islands, LocalIslands, Memories, RayIslands
from kevolve.search.proposing import Beside, proposing

Propose = Callable[[Request, Context], Awaitable[Proposal | Refusal]]


@dataclass(frozen=True)
class Workers:
    """`up` is entered for the session; `islands` takes policy, run seed and what an island remembers by its number;
    `loss` says what has happened when nothing more can be expected of them, and None while all is well; `cores` are
    those to build with.
    """

    up: Callable[[ClusterConfig], AbstractContextManager[None]]
    islands: Callable[[PolicyConfig, int, Callable[[int], Memories]], Islands]
    proposing: Callable[[Proposer | Resident, ClusterConfig], Propose]
    loss: Callable[[ClusterConfig], Awaitable[str | None]]
    cores: Callable[[], int]


RAY = Workers(cluster, RayIslands, proposing, loss, cores)


class LocalProposing:
    """Proposes in this process."""

    def __init__(self, proposer: Proposer) -> None:
        self._proposer = proposer

    async def __call__(self, request: Request, context: Context) -> Proposal | Refusal:
        return await self._proposer.propose(request, context)


async def _no_loss(cluster: ClusterConfig) -> str | None:
    return None


def _proposing(proposer: Proposer | Resident, cluster: ClusterConfig) -> Propose:
    return Beside(proposer) if is_resident(proposer) else LocalProposing(proposer)


LOCAL = Workers(lambda cluster: nullcontext(), LocalIslands, _proposing, _no_loss, lambda: 1)


def workers_of(config: Config) -> Workers:
    """Ray for devices; recorded timings are played back in this process, in less time than Ray takes to start."""
    return RAY if config.judge.landscape is None else LOCAL
