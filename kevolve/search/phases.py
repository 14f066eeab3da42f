"""Phases: who may use a core now, on a device whose timing any other work would spoil.

A reader-writer lock. Asking, proposing, building and writing share it; a timing has it alone. Waiting timings go
before new work, and when the last of them is done all waiting work goes as one batch: builds run side by side
between timings instead of one by one. Neither can starve, because a lane that has measured must build before it can
measure again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class Phases:
    """One lock for all lanes and devices of a run."""

    def __init__(self) -> None:
        self._sharing = 0
        self._is_alone = False
        self._waiting_alone: deque[asyncio.Future[None]] = deque()
        self._waiting_shared: deque[asyncio.Future[None]] = deque()
        self._waiting_light: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def shared(self, *, light: bool = False) -> AsyncIterator[None]:
        """Work that uses cores: runs beside other such work, never beside a timing.

        `light` work goes before timings that wait, where it would keep somebody slow waiting: a model that is asked
        only when all timings are done leaves the device without work until it answers.
        """
        if self._is_alone and light:
            await self._wait(self._waiting_light, self._leave_shared)
        elif self._is_alone or (self._waiting_alone and not light):
            await self._wait(self._waiting_shared, self._leave_shared)
        else:
            self._sharing += 1
        try:
            yield
        finally:
            self._leave_shared()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Inside `shared`: a wait for somebody who needs no core of ours. Timings may begin meanwhile."""
        self._leave_shared()
        try:
            yield
        except asyncio.CancelledError:
            self._sharing += 1  # only for `shared` to take it back: a lane that is cancelled waits for nothing
            raise
        except BaseException:
            await self._return()
            raise
        else:
            await self._return()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """A timing: nothing else of ours uses a core."""
        if self._is_alone or self._sharing or self._waiting_alone:
            await self._wait(self._waiting_alone, self._leave_alone)
        else:
            self._is_alone = True
        try:
            yield
        finally:
            self._leave_alone()

    async def _return(self) -> None:
        if not self._is_alone and not self._waiting_alone:
            self._sharing += 1
            return
        try:
            await self._wait(self._waiting_shared, self._leave_shared)
        except asyncio.CancelledError:
            self._sharing += 1  # as above
            raise

    async def _wait(self, queue: deque[asyncio.Future[None]], leave: Callable[[], None]) -> None:
        """Until admitted. A lane cancelled while it waits gives its place, or its turn, back."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                leave()
            elif turn in queue:
                queue.remove(turn)
                self._admit()
            raise

    def _leave_shared(self) -> None:
        self._sharing -= 1
        self._admit()

    def _leave_alone(self) -> None:
        self._is_alone = False
        self._admit()

    def _admit(self) -> None:
        """Let in who is next: a waiting timing once nobody works, else all waiting work."""
        while self._waiting_alone and self._waiting_alone[0].cancelled():
            self._waiting_alone.popleft()
        if self._is_alone:
            return
        self._let_in(self._waiting_light)
        if self._waiting_alone:
            if not self._sharing:
                self._is_alone = True
                self._waiting_alone.popleft().set_result(None)
            return
        self._let_in(self._waiting_shared)

    def _let_in(self, waiting: deque[asyncio.Future[None]]) -> None:
        while waiting:
            turn = waiting.popleft()
            if not turn.cancelled():
                self._sharing += 1
                turn.set_result(None)
