"""Spending: tokens and money are set aside before a call is made, so that a budget is never exceeded by surprise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from kevolve.propose.proposer import PutOff


@dataclass
class Reserved:
    """What is set aside for one call; `spend` makes of it what the call took."""

    tokens: int
    usd: float
    is_spent: bool = False

    def spend(self, tokens: int, usd: float) -> None:
        """The call is over and took that much."""
        self.tokens, self.usd, self.is_spent = tokens, usd, True


class Spending:
    """The run's ledger. None is no limit; `tokens` and `usd` are what was spent before."""

    def __init__(self, most_tokens: int | None, most_usd: float | None, tokens: int = 0, usd: float = 0.0) -> None:
        self._most_tokens, self._most_usd = most_tokens, most_usd
        self.tokens, self.usd = tokens, usd
        self._under_way: list[Reserved] = []
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def reserved(self, tokens: int, usd: float) -> AsyncIterator[Reserved]:
        """Room for a call that takes at most that much. Waits for calls under way to turn out cheaper than feared.

        Raises PutOff, which ends the run, if there is no room with nothing under way. A call that is not said to have
        been spent in the end cost nothing.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._has_room(tokens, usd) or not self._under_way)
            if not self._has_room(tokens, usd):
                raise PutOff(self._refusal(tokens, usd), ends="spent")
            mine = Reserved(tokens, usd)
            self._under_way.append(mine)
        try:
            yield mine
        finally:
            self._under_way.remove(mine)
            if mine.is_spent:
                self.tokens += mine.tokens
                self.usd += mine.usd
            async with self._changed:
                self._changed.notify_all()

    def _has_room(self, tokens: int, usd: float) -> bool:
        tokens += self.tokens + sum(one.tokens for one in self._under_way)
        usd += self.usd + sum(one.usd for one in self._under_way)
        return (self._most_tokens is None or tokens <= self._most_tokens) and (
            self._most_usd is None or usd <= self._most_usd
        )

    def _refusal(self, tokens: int, usd: float) -> str:
        return (
            f"the next call may take {tokens} tokens and {usd:.4f} USD; spent are {self.tokens} (budget.tokens="
            f"{self._most_tokens}) and {self.usd:.4f} USD (budget.cost_usd={self._most_usd})"
        )
