"""The desk: what the driver lends to a proposer that stays with it, for a session."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from kevolve.config import Config
    from kevolve.propose.proposer import Context

# What came of one call of a model. Only the first was judged; the others cost what they cost.
Outcome = Literal["program", "no match", "no program", "equal", "cut off", "empty", "filtered", "failed"]


@dataclass(frozen=True)
class Call:
    """One call of a model: what was said and answered, and what it took. `cost_usd` is None where no price is known.

    `purpose` is the request's kind, or `edit` for the turn in which a reply that could not be applied is mended;
    `reason` says what is wrong with the reply; `documents` names what was looked up and why.
    """

    model: str
    purpose: str
    prompt: str
    reply: str
    outcome: Outcome
    reason: str = ""
    prompt_tokens: int = 0
    reply_tokens: int = 0
    cost_usd: float | None = 0.0
    seconds: float = 0.0
    documents: tuple[dict[str, str], ...] = field(default=())

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.reply_tokens


@dataclass(frozen=True)
class Desk:
    """`config` and `folder` are the run's, `tokens` and `cost_usd` what earlier sessions took.

    `record` stores a call at once and gives the record that the program's origin keeps; inside `away`, timings may
    begin; `is_over` says whether the run asks for nothing more.
    """

    config: Config
    folder: Path
    tokens: int
    cost_usd: float
    record: Callable[[Context, Call], dict[str, Any]]
    away: Callable[[], AbstractAsyncContextManager[None]]
    is_over: Callable[[], bool]
