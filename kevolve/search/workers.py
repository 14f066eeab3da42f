"""Workers: where islands live and proposers run. Ray, unless a test wants everything in its own process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from kevolve.config import ClusterConfig, PolicyConfig
from kevolve.propose.proposer import Context, Proposal, Proposer, Refusal, Request
from kevolve.search.cluster import cluster, is_alive
from kevolve.search.island import Islands, Memories, RayIslands
from kevolve.search.proposing import Proposing

Propose = Callable[[Request, Context], Awaitable[Proposal | Refusal]]


@dataclass(frozen=True)
class Workers:
    """`up` is entered for the session; `islands` takes policy, run seed and what an island remembers by its number;
    `are_alive` turns False when nothing more can be expected of them.
    """

    up: Callable[[ClusterConfig], AbstractContextManager[None]]
    islands: Callable[[PolicyConfig, int, Callable[[int], Memories]], Islands]
    proposing: Callable[[Proposer], Propose]
    are_alive: Callable[[], bool]


RAY = Workers(cluster, RayIslands, Proposing, is_alive)
