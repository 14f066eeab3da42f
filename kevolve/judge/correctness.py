"""Correctness: does a program give the oracle's answer on every workload, whatever its role?

The program runs in a child that never holds the oracle or the expected output. Its outputs start as NaN between guard
zones, its inputs are read-only and surrounded by NaN, and the content follows from the judge's seed.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from kevolve.judge.arena import Arena
from kevolve.judge.call import Arenas, Call, place, place_as_timed
from kevolve.judge.draws import Draws
from kevolve.judge.sandbox.child import Child
from kevolve.judge.sandbox.exits import ChildEnded, ChildLate, ChildRan, Exit
from kevolve.judge.slots import calls_at_most, write_slots
from kevolve.languages.language import Built
from kevolve.operators.operator import Mismatch, Operator, Workload
from kevolve.verdict import Rejected, Stage

_LOAD_SECONDS = 10.0
_MAPPED_AHEAD = 1.25


class Rejection(Exception):
    """Ends the judging of a program; carries the verdict."""

    def __init__(self, verdict: Rejected):
        super().__init__(verdict.reason)
        self.verdict = verdict


@dataclass
class Patience:
    """How long a program may keep the device: `call` seconds at a time, `left` seconds in all."""

    call: float
    left: float

    def next(self) -> float:
        """The deadline of the next exchange, in seconds."""
        return min(self.call, self.left)


class Runner:
    """A child with the program loaded. Turns whatever goes wrong there into a `Rejection`.

    `inputs` and `outputs` of `arenas` are laid out for each block of calls while the child is stopped.
    """

    def __init__(self, operator: Operator, built: Built, child: Child, patience: Patience, arenas: Arenas):
        self.operator = operator
        self.built = built
        self.child = child
        self.patience = patience
        self.arenas = arenas
        self.variants: dict[str, int] = {}
        self.mapped = (0, 0)
        self.doing = "before its first call"

    def load(self, workload: Workload) -> int:
        """The number of the variant that `workload` needs, which is loaded if it is not."""
        variant = f"{workload.dtype}-{workload.index_dtype}"
        if variant in self.variants:
            return self.variants[variant]
        self.doing = "while it was loaded"
        name = f"{variant}-{secrets.token_hex(8)}"  # a name that no file had before: what runs is what was built
        message = {
            "op": "load",
            "entry": self.built.entry,
            "arguments": len(self.operator.arguments),
            "calls": calls_at_most(self.operator),
        }
        with self.built.open(variant, name) as file:
            self._ask(message, min(_LOAD_SECONDS, self.patience.left), [file.fileno()])
        if not self.child.maps(name):
            raise Rejection(Rejected("correctness", "what is loaded is not what was built"))
        return self.variants.setdefault(variant, len(self.variants))

    def reach(self) -> bool:
        """Have the child map all memory that is laid out. False if it had to run for that: make the content anew."""
        used = (self.arenas.inputs.next, self.arenas.outputs.next)
        if used[0] <= self.mapped[0] and used[1] <= self.mapped[1]:
            return True
        self.mapped = (_ahead(used[0], self.arenas.inputs), _ahead(used[1], self.arenas.outputs))
        self._ask({"op": "map", "used": self.mapped}, _LOAD_SECONDS)
        return False

    def run(self, workload: Workload, calls: Sequence[Call]) -> tuple[float, list[int]]:
        """Run `calls`; returns the judge's window in seconds and the child's own times in ns."""
        variant = self.ready(workload, calls)
        held = os.fstat(self.arenas.outputs.fd).st_blocks  # nothing new is touched: all that is laid out is mapped
        with self._patiently():
            window, times = self.child.go(self.patience.next(), variant, len(calls))
        if len(times) != len(calls):
            raise ChildEnded
        if os.fstat(self.arenas.outputs.fd).st_blocks != held:
            raise Rejection(
                Rejected("correctness", f"gives memory of its outputs back, or uses more beside them, {self.doing}")
            )
        return window, times

    @contextmanager
    def run_until(self, seconds: float, workload: Workload, calls: Sequence[Call]) -> Iterator[None]:
        """Run `calls` but stop after `seconds`; they end when the context does."""
        variant = self.ready(workload, calls)
        with self._patiently():
            self.child.go_until(min(seconds, self.patience.next()), variant, len(calls))
        yield
        with self._patiently():
            self.child.finish(self.patience.next())

    def ready(self, workload: Workload, calls: Sequence[Call]) -> int:
        """Give the stopped child the arguments of `calls`; returns the variant's number."""
        variant = self.load(workload)
        self.doing = f"on {workload.name}"
        write_slots(self.arenas.inputs, self.operator, calls, self.child.addresses)
        return variant

    def _ask(self, message: Mapping[str, Any], seconds: float, descriptors: Sequence[int] = ()) -> None:
        answer = self.child.ask(message, seconds, descriptors)
        if "error" in answer:
            raise Rejection(Rejected("correctness", f"the program cannot be loaded: {answer['error']}"))

    @contextmanager
    def _patiently(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.patience.left -= time.perf_counter() - start

    def rejection(self, error: Exception, ended: Exit, memory_bytes: int, stage: Stage) -> Rejected:
        """The verdict on a program whose child ended, or did not answer in time."""
        if isinstance(error, ChildLate):
            limit = min(self.patience.call, max(self.patience.left, 0.0))
            return Rejected(
                stage, f"did not finish within {limit or self.patience.call:.3g} s {self.doing}", ended.output
            )
        if isinstance(error, ChildRan):
            return Rejected(stage, f"ran while it was stopped {self.doing}", ended.output)
        return Rejected(stage, f"{ended.describe(memory_bytes)} {self.doing}", ended.output)


def check_all(operator: Operator, runner: Runner, draws: Draws, odd: Sequence[Workload]) -> None:
    """Every workload and those of `odd`, smallest first. Raises Rejection with the first wrong answer."""

    def size(workload: Workload) -> int:
        product = 1
        for length in workload.sizes.values():
            product *= max(length, 1)
        return product

    for workload in sorted([*operator.workloads, *odd], key=size):
        runner.arenas.reset()
        draw = draws.of(workload)
        runner.load(workload)
        if workload.role == "adversarial":
            call = place(operator, workload, draw.inputs, runner.arenas, fenced=True)
        else:
            call = place_as_timed(operator, workload, draw.inputs, runner.arenas)
        runner.reach()
        runner.run(workload, [call])
        check_guards(workload, call, runner.arenas, "correctness")
        reject_if(draw.check(call.answer()), workload, "correctness")


def check_answer(operator: Operator, workload: Workload, call: Call, arenas: Arenas) -> None:
    """Raises Rejection if a timed call's answer is wrong, or if it wrote beside its outputs."""
    check_guards(workload, call, arenas, "timing")
    reject_if(operator.check(workload, call.answer(), operator.oracle(call.given), call.given), workload, "timing")


def check_pieces(
    operator: Operator, workload: Workload, calls: Sequence[Call], rng: torch.Generator, numbers: int
) -> bool:
    """Raises Rejection if pieces of these calls' answers are wrong, of about `numbers` input numbers in all.

    False if the operator's calls do not come to pieces.
    """
    pieces = operator.scattered([(call.given, call.answer()) for call in calls], rng, numbers)
    if pieces is None:
        return False
    given, answer = pieces
    reject_if(operator.check(workload, answer, operator.oracle(given), given), workload, "timing")
    return True


def check_guards(workload: Workload, call: Call, arenas: Arenas, stage: Stage) -> None:
    """Raises Rejection if something was written beside the outputs."""
    broken = call.broken_guards(arenas)
    if broken:
        raise Rejection(Rejected(stage, f"writes outside {', '.join(broken)} on {workload.name}"))


def _ahead(used: int, arena: Arena) -> int:
    """Somewhat more than `used` bytes: lengths that are drawn anew add up to a little more or less."""
    return min(int(used * _MAPPED_AHEAD), arena.size)


def reject_if(mismatch: Mismatch | None, workload: Workload, stage: Stage) -> None:
    """Raises Rejection if there is a mismatch."""
    if mismatch is not None:
        when = " in a timed call" if stage == "timing" else ""
        reason = f"wrong on {workload.name} ({workload.role}){when}: {mismatch.reason}"
        raise Rejection(Rejected(stage, reason, mismatch.detail))
