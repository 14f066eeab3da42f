"""Judging: a program becomes a verdict, on the device only if nothing known says what it would be.

The cheapest comes first: the same program was judged under the same circumstances, or one that differs in comments,
layout and names alone; it does not build; it builds to the same binaries as a program that was judged; and only then
the device. A program that differs by one number is not the same: that is what tuning is. Faults are tried again a few
times: they are the machine's and say nothing of the program.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from kevolve.languages.language import Built
from kevolve.verdict import Fault, Judgement, Rejected, Scored

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kevolve.judge.lease import Lease, Survey
    from kevolve.program import Program
    from kevolve.search.lineage import Lineage
    from kevolve.search.policies.policy import Search

T = TypeVar("T")

PAUSES = (1.0, 5.0)  # seconds until what ended in a fault is tried again: whatever ails the machine may pass


@dataclass(frozen=True)
class Ready:
    """A program that must go to the device."""

    program: Program
    built: Built


@dataclass(frozen=True)
class Settled:
    """A judgement; `reused` if it was known before."""

    judgement: Judgement
    reused: bool = False


def seed_of(run_seed: int, *names: str) -> int:
    """The seed of one judgement: it depends on what is judged and not on when, so that a resumed run repeats it."""
    text = "\0".join((str(run_seed), *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])


async def prepare(
    lease: Lease,
    lineage: Lineage,
    search: Search,
    program: Program,
    building: Awaitable[Built | Rejected | Fault] | None = None,
) -> Ready | Settled:
    """Screen and build `program`, unless its verdict is known. Uses a core, and never the device.

    `building` is its build, if that has begun.
    """
    key = lease.key(program)
    known = lineage.known(search, key)
    if known is not None:
        return Settled(known, reused=True)
    twin = lineage.same_but_for_names(search, key, program)
    if twin is not None:
        return Settled(replace(twin, key=key), reused=True)
    outcome = await (building or build(lease, program))
    if isinstance(outcome, Rejected | Fault):
        return Settled(Judgement(key, outcome))
    return equal(lease, lineage, search, program, outcome) or Ready(program, outcome)


async def build(lease: Lease, program: Program) -> Built | Rejected | Fault:
    """The program screened and built."""
    return await _retried(lambda: lease.prepare(program), lambda built: isinstance(built, Fault))


def equal(lease: Lease, lineage: Lineage, search: Search, program: Program, built: Built) -> Settled | None:
    """The verdict on a program with the same binaries, as a verdict on this one."""
    key = lease.key(program)
    twin = lineage.same_artefact(search, key, built.artefact)
    return Settled(replace(twin, key=key), reused=True) if twin is not None else None


async def measure(
    lease: Lease, survey: Survey, ready: Ready, seed: int, *, confirm: bool = False, to_beat: float = 0.0
) -> Judgement:
    """The device's verdict. A fitness that is no number is the judge's fault and becomes a Fault here."""

    async def once() -> Judgement:
        program, built = ready.program, ready.built
        return _sound(await lease.measure(program, built, survey, seed, confirm=confirm, to_beat=to_beat))

    judgement = await _retried(once, lambda judged: isinstance(judged.verdict, Fault))
    return judgement if judgement.artefact else replace(judgement, artefact=ready.built.artefact)


async def survey_of(lease: Lease, operator: str, seed: int) -> Survey | Fault:
    """The operator's baselines on the lease's device."""
    return await _retried(lambda: lease.survey(operator, seed), lambda survey: isinstance(survey, Fault))


async def _retried(action: Callable[[], Awaitable[T]], is_fault: Callable[[T], bool]) -> T:
    for pause in PAUSES:
        outcome = await action()
        if not is_fault(outcome):
            return outcome
        await asyncio.sleep(pause)
    return await action()


def _sound(judgement: Judgement) -> Judgement:
    match judgement.verdict:
        case Scored(fitness=fitness):
            values = (fitness.speedup, fitness.worst, *fitness.interval)
            if not all(math.isfinite(value) and value > 0 for value in values):
                return replace(judgement, verdict=Fault("device", f"a speedup that is no number: {fitness}"))
    return judgement
