"""The proposer contract: parents and context in, a child program out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from kevolve.program import Program
from kevolve.verdict import Verdict

Kind = Literal["draft", "improve", "crossover"]


@dataclass(frozen=True)
class Credit:
    """How often an edit was tried on an island, and how much it brought (log2 of speedup over the parent)."""

    tries: int
    gain: float


@dataclass(frozen=True)
class Request:
    """What an island asks for. With its context it determines a deterministic proposer's answer.

    `seed` is the only source of randomness a proposer may use; `credit` is what the island has
    learned about edits by name; `attempt` counts the answers that turned out to be known programs already.
    """

    kind: Kind
    parents: tuple[str, ...]
    seed: int
    credit: Mapping[str, Credit] = field(default_factory=dict)
    attempt: int = 0


@dataclass(frozen=True)
class Context:
    """What the driver adds to a request: parents in full with their verdicts, and the starting programs."""

    operator: str
    device: str
    parents: tuple[tuple[Program, Verdict | None], ...]
    seeds: tuple[Program, ...]


@dataclass(frozen=True)
class Proposal:
    """A child program. `tokens` and `cost_usd` are what it took."""

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
