"""On an exclusive device nothing of ours runs beside a timing, and builds go in batches between timings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kevolve.search.phases import Phases


class Desk:
    """Runs jobs under a lock and notes who is in; each job stays until it is let go."""

    def __init__(self) -> None:
        self.phases = Phases()
        self.inside: set[str] = set()
        self.history: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.doors: dict[str, asyncio.Event] = {}

    async def come(self, name: str) -> None:
        """A job arrives: `t...` is a timing, any other name is work."""
        self.doors[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._job(name))
        await settle()

    async def leave(self, *names: str) -> None:
        for name in names:
            self.doors[name].set()
            await self.tasks[name]
        await settle()

    async def _job(self, name: str) -> None:
        async with self.phases.alone() if name.startswith("t") else self.phases.shared():
            self.inside.add(name)
            self.history.append(name)
            try:
                await self.doors[name].wait()
            finally:
                self.inside.discard(name)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def played(play: Callable[[Desk], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(play(Desk()), 10))  # type: ignore[arg-type]


def test_a_timing_is_alone() -> None:
    async def play(desk: Desk) -> None:
        await desk.come("build1")
        await desk.come("build2")
        await desk.come("t1")
        assert desk.inside == {"build1", "build2"}
        await desk.leave("build1")
        assert desk.inside == {"build2"}
        await desk.leave("build2")
        assert desk.inside == {"t1"}
        await desk.come("t2")
        await desk.come("build3")
        assert desk.inside == {"t1"}

    played(play)


def test_waiting_timings_go_first_and_then_all_builds_as_one_batch() -> None:
    async def play(desk: Desk) -> None:
        for name in ("t1", "build1", "t2", "build2", "build3"):
            await desk.come(name)
        await desk.leave("t1")
        assert desk.inside == {"t2"}
        await desk.leave("t2")
        assert desk.inside == {"build1", "build2", "build3"}

    played(play)


def test_new_builds_wait_behind_a_timing_that_waits() -> None:
    async def play(desk: Desk) -> None:
        await desk.come("build1")
        await desk.come("t1")
        await desk.come("build2")
        assert desk.inside == {"build1"}
        await desk.leave("build1")
        assert desk.inside == {"t1"}
        await desk.leave("t1")
        assert desk.inside == {"build2"}

    played(play)


def test_a_lane_cancelled_while_it_waits_or_works_leaves_the_way_free() -> None:
    async def play(desk: Desk) -> None:
        await desk.come("build1")
        await desk.come("t1")
        await desk.come("build2")
        desk.tasks["t1"].cancel()
        await settle()
        assert desk.inside == {"build1", "build2"}
        await desk.come("t2")
        desk.tasks["build1"].cancel()
        desk.tasks["build2"].cancel()
        await settle()
        assert desk.inside == {"t2"}

    played(play)


def test_a_turn_that_comes_in_the_moment_of_cancelling_is_passed_on() -> None:
    async def play(desk: Desk) -> None:
        await desk.come("t1")
        await desk.come("t2")
        await desk.come("build1")
        desk.doors["t1"].set()
        desk.tasks["t2"].cancel()
        await settle()
        assert desk.inside == {"build1"}

    played(play)


async def _waiting(phases: Phases, door: asyncio.Event, seen: list[str]) -> None:
    async with phases.shared():
        async with phases.away():
            seen.append("away")
            await door.wait()
        seen.append("back")


def test_who_waits_for_somebody_else_keeps_no_timing_waiting_and_comes_back_after_it() -> None:
    async def play(desk: Desk) -> None:
        door, seen = asyncio.Event(), list[str]()
        waiting = asyncio.create_task(_waiting(desk.phases, door, seen))
        await settle()
        await desk.come("t1")
        assert desk.inside == {"t1"}
        door.set()
        await settle()
        assert seen == ["away"], "it does not come back into a timing"
        await desk.leave("t1")
        assert seen == ["away", "back"]
        await waiting

    played(play)


def test_who_is_cancelled_while_away_or_coming_back_leaves_the_lock_as_it_was() -> None:
    async def play(desk: Desk) -> None:
        for is_coming_back in (False, True):
            door, seen = asyncio.Event(), list[str]()
            waiting = asyncio.create_task(_waiting(desk.phases, door, seen))
            await settle()
            await desk.come("t1")
            if is_coming_back:
                door.set()
                await settle()
            waiting.cancel()
            await settle()
            assert waiting.done()
            await desk.leave("t1")
            await desk.come("build1")
            await desk.come("t2")
            assert desk.inside == {"build1"}, "work still keeps a timing out"
            await desk.leave("build1", "t2")

    played(play)


def test_asking_somebody_slow_goes_before_timings_that_wait_and_never_beside_one() -> None:
    async def play(desk: Desk) -> None:
        seen: list[str] = []

        async def ask() -> None:
            async with desk.phases.shared(light=True):
                seen.append(" ".join(sorted(desk.inside)))

        await desk.come("t1")
        await desk.come("t2")
        asking = asyncio.create_task(ask())
        await settle()
        assert seen == []
        await desk.leave("t1")
        await asking
        assert seen == [""]
        assert desk.inside == {"t2"}
        await desk.leave("t2")

    played(play)
