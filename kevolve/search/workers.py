"""Workers: where islands live and proposers run. Ray, unless a test wants everything in its own process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from kevolve.config import ClusterConfig, PolicyConfig
from kevolve.propose.proposer import Context, Proposal, Proposer, Refusal, Request
from kevolve.search.cluster import cluster, loss
from kevolve.search.island import Islands, Memories, RayIslands
from kevolve.search.proposing import Proposing

Propose = Callable[[Request, Context], Awaitable[Proposal | Refusal]]


@dataclass(frozen=True)
class Workers:
    """`up` is entered for the session; `islands` takes policy, run seed and what an island remembers by its number;
    `loss` says what has happened when nothing more can be expected of them, and None while all is well.
    """

    up: Callable[[ClusterConfig], AbstractContextManager[None]]
    islands: Callable[[PolicyConfig, int, Callable[[int], Memories]], Islands]
    proposing: Callable[[Proposer, ClusterConfig], Propose]
    loss: Callable[[ClusterConfig], Awaitable[str | None]]


RAY = Workers(cluster, RayIslands, Proposing, loss)
