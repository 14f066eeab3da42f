"""The proposer contract: parents and context in, a child program out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeGuard

from kevolve.program import Program
from kevolve.propose.history import History
from kevolve.verdict import Verdict

if TYPE_CHECKING:
    from kevolve.judge.lease import Survey
    from kevolve.propose.desk import Desk

Kind = Literal["draft", "improve", "crossover", "repair", "port"]


@dataclass(frozen=True)
class Credit:
    """How often an edit was tried on an island, and how much it brought (log2 of speedup over the parent)."""

    tries: int
    gain: float


@dataclass(frozen=True)
class Request:
    """What an island asks for. With its context it determines a deterministic proposer's answer.

    `seed` is the only source of randomness a proposer may use; `credit` is what the island has
    learned about edits by name; `attempt` counts the answers that turned out to be known programs already;
    `repairs` is how many repairs in a row the last of which this one is.
    """

    kind: Kind
    parents: tuple[str, ...]
    seed: int
    credit: Mapping[str, Credit] = field(default_factory=dict)
    attempt: int = 0
    repairs: int = 0


@dataclass(frozen=True)
class Context:
    """What the driver adds to a request: parents in full with their verdicts, and the starting programs.

    The rest is for proposers that stay with the driver (`Resident`): the request's `number` in the run, the
    device's languages and what is recorded of it, its baselines, what was tried before, and the verdicts on `seeds`.
    """

    operator: str
    device: str
    parents: tuple[tuple[Program, Verdict | None], ...]
    seeds: tuple[Program, ...]
    number: int = 0
    languages: tuple[str, ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    survey: Survey | None = None
    history: History = field(default_factory=History)
    seed_verdicts: Mapping[str, Verdict] = field(default_factory=dict)


@dataclass(frozen=True)
class Proposal:
    """A child program. `tokens` and `cost_usd` are what it took, but for what a `Resident` has recorded itself."""

    program: Program
    tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True)
class Refusal:
    """No program this time, and why."""

    reason: str


class Proposer(Protocol):
    """Makes a child program. Runs in a Ray task, so it must pickle and keep no state between calls."""

    async def propose(self, request: Request, context: Context) -> Proposal | Refusal:
        """The next child for `request`."""
        ...


class PutOff(Exception):
    """No answer now: the request stays open until the run goes on. `ends` is why the run stops for it, if it does."""

    def __init__(self, reason: str, ends: Literal["spent"] | None = None):
        super().__init__(reason)
        self.ends = ends


class Resident(Protocol):
    """A proposer that stays with the driver, on its event loop: it waits for somebody else most of the time, and
    holds what must not travel (keys, budgets).

    It may raise PutOff and FaultsStopped; the request stays open in both cases.
    """

    repairs: int  # in a row, that a program which does not build or is wrong is sent back for
    attempts: int  # at one request, while the answers are programs that are known already

    def begin(self, desk: Desk) -> None:
        """The session begins. UsageError if it cannot."""
        ...

    async def propose(self, request: Request, context: Context) -> Proposal | Refusal:
        """See `Proposer`."""
        ...

    def judged(self, number: int, verdict: Verdict) -> None:
        """What came of request `number`. Must be quick."""
        ...

    async def close(self) -> None:
        """The session ends."""
        ...


def is_resident(proposer: Proposer | Resident) -> TypeGuard[Resident]:
    """Does the proposer stay with the driver?"""
    return hasattr(proposer, "begin")
