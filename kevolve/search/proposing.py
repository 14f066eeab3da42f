"""Proposing: one Ray task per request, so that no proposer can stop the driver or take it down.

A proposer that waits for somebody else (a model, a person) is a `Resident` and stays with the driver.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kevolve.cluster.nodes import LOOK_SECONDS, NodeLost, alive_nodes, answer_of, nodes_within, selector
from kevolve.errors import FaultsStopped, UsageError
from kevolve.program import Program
from kevolve.propose.proposer import Context, Proposal, Proposer, PutOff, Refusal, Request, Resident, is_resident

if TYPE_CHECKING:
    from collections.abc import Collection

    from kevolve.config import ClusterConfig
    from kevolve.search.workers import Propose

DEATHS = 3  # workers that one request may cost


class ProposerFailed(Exception):
    """The proposer raised, or its worker died every time: its trouble, not a refusal."""


def proposing(proposer: Proposer | Resident, cluster: ClusterConfig) -> Propose:
    """The run's proposer at work, wherever that is."""
    return Beside(proposer) if is_resident(proposer) else Proposing(proposer, cluster)


class Beside:
    """A resident at work on the driver's own event loop."""

    def __init__(self, resident: Resident) -> None:
        self._resident = resident

    async def __call__(self, request: Request, context: Context) -> Proposal | Refusal:
        """Its answer; raises ProposerFailed for what it was not meant to raise."""
        try:
            return await self._resident.propose(request, context)
        except (PutOff, FaultsStopped, UsageError, OSError):
            raise
        except Exception as error:
            raise ProposerFailed(f"the proposer raised {type(error).__name__}: {in_one_line(error)}") from error


class Proposing:
    """The run's proposer, at work on the cluster.

    It travels with each request: Ray ends a driver without a word that touches its object store after the raylet has
    died, and what is small and goes by value does not.
    """

    def __init__(self, proposer: Proposer, cluster: ClusterConfig) -> None:
        import ray

        self._proposer = proposer
        self._nodes = [node.id for node in alive_nodes()]  # one of them has the task; Ray does not say which
        # A retry by Ray would be silent and without limit of its own; ours are counted below.
        self._task = ray.remote(num_cpus=1, max_retries=0, label_selector=selector(cluster.labels))(_propose)

    async def __call__(self, request: Request, context: Context) -> Proposal | Refusal:
        """The proposer's answer; raises ProposerFailed if it has none to give."""
        from ray.exceptions import NodeDiedError, ObjectLostError, OutOfMemoryError, RayTaskError, WorkerCrashedError

        death: Exception | None = None
        for _ in range(DEATHS):
            try:
                reference = self._task.remote(self._proposer, request, context)
                answer: Proposal | Refusal = await answer_of(reference, self._nodes)
            except RayTaskError as error:
                raise ProposerFailed(f"the proposer raised {in_one_line(error)}") from None
            except (WorkerCrashedError, OutOfMemoryError, NodeDiedError, ObjectLostError, NodeLost) as error:
                death = error
                self._nodes = [node.id for node in await nodes_within(LOOK_SECONDS) or () if node.is_alive]
            else:
                return answer
        raise ProposerFailed(f"the proposer's process died {DEATHS} times in a row: {in_one_line(death)}")


def in_one_line(error: BaseException | None) -> str:
    """What went wrong, without Ray's traceback and advice around it."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):
        return f"{type(cause).__name__}: {in_one_line(cause)}"
    lines = str(error).strip().splitlines() or [""]
    # An actor that fails as it starts comes without its cause: that is only told below a traceback.
    return lines[-1].strip() if "creation task" in lines[0] else lines[0]


def fault_in(program: Program, request: Request, context: Context, languages: Collection[str]) -> str | None:
    """Why a proposed program cannot be taken as an answer to `request`, or None if it can."""
    allowed = {*request.parents, *(seed.id for seed in context.seeds)}
    if program.operator != context.operator:
        return f"the program is for {program.operator}, and {context.operator} was asked for"
    if program.language not in languages:
        return f"the program is in {program.language}, and the device takes {', '.join(languages)}"
    if not allowed.issuperset(program.parents):
        return "the program names parents that are not on its island"
    return None


def _propose(proposer: Proposer, request: Request, context: Context) -> Any:
    return asyncio.run(_answer(proposer, request, context))


async def _answer(proposer: Proposer, request: Request, context: Context) -> Proposal | Refusal:
    return await proposer.propose(request, context)
