"""Correctness: does a program give the oracle's answer on every workload, whatever its role?

The program runs in a child that never holds the oracle or the expected output. Its outputs start as NaN between guard
zones, its inputs are read-only and surrounded by NaN, and the content follows from the judge's seed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kevolve.judge.call import Arenas, Call, place
from kevolve.judge.draws import Draws
from kevolve.judge.sandbox.process import Child, ChildEnded, ChildLate, Exit
from kevolve.languages.language import Built
from kevolve.operators.operator import Mismatch, Operator, Workload
from kevolve.verdict import Rejected, Stage

_LOAD_SECONDS = 10.0


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
    """A child with one variant of the program loaded. Turns whatever goes wrong there into a `Rejection`."""

    def __init__(self, operator: Operator, built: Built, child: Child, patience: Patience):
        self.operator = operator
        self.built = built
        self.child = child
        self.patience = patience
        self.loaded = ""
        self.doing = "before its first call"

    def load(self, workload: Workload) -> None:
        """Load the variant that `workload` needs, unless it is loaded already."""
        name = f"{workload.dtype}-{workload.index_dtype}"
        if name == self.loaded:
            return
        self.doing = "while it was loaded"
        descriptor = self.built.open(name)
        message = {"op": "load", "entry": self.built.entry, "arguments": [a.kind for a in self.operator.arguments]}
        answer = self.child.ask(message, min(_LOAD_SECONDS, self.patience.left), [descriptor.fileno()])
        descriptor.close()
        if "error" in answer:
            raise Rejection(Rejected("correctness", f"the program cannot be loaded: {answer['error']}"))
        self.loaded = name

    def run(self, workload: Workload, calls: Sequence[Call], arenas: Arenas) -> tuple[float, list[int]]:
        """Run `calls`; returns the judge's window in seconds and the child's own times in ns."""
        self.load(workload)
        self.doing = f"on {workload.name}"
        message = {
            "op": "prepare",
            "calls": [call.numbers(self.operator) for call in calls],
            "used": [arenas.inputs.next, arenas.outputs.next],
        }
        answer = self.child.ask(message, _LOAD_SECONDS)
        if "error" in answer:
            raise Rejection(Rejected("correctness", f"the program cannot be called: {answer['error']}"))
        start = time.perf_counter()
        try:
            window, times = self.child.go(self.patience.next())
        finally:
            self.patience.left -= time.perf_counter() - start
        if len(times) != len(calls):
            raise ChildEnded
        return window, times

    def rejection(self, error: Exception, ended: Exit, memory_bytes: int, stage: Stage) -> Rejected:
        """The verdict on a program whose child ended, or did not answer in time."""
        if isinstance(error, ChildLate):
            limit = min(self.patience.call, max(self.patience.left, 0.0))
            return Rejected(
                stage, f"did not finish within {limit or self.patience.call:.3g} s {self.doing}", ended.output
            )
        return Rejected(stage, f"{ended.describe(memory_bytes)} {self.doing}", ended.output)


def check_all(operator: Operator, runner: Runner, arenas: Arenas, draws: Draws) -> None:
    """Every workload, smallest first. Raises Rejection with the first wrong answer."""

    def size(workload: Workload) -> int:
        product = 1
        for length in workload.sizes.values():
            product *= max(length, 1)
        return product

    for workload in sorted(operator.workloads, key=size):
        arenas.reset()
        draw = draws.of(workload)
        call = place(operator, workload, draw.inputs, arenas)
        runner.run(workload, [call], arenas)
        check_guards(workload, call, arenas, "correctness")
        reject_if(draw.check(call.answer()), workload, "correctness")


def check_part(operator: Operator, workload: Workload, call: Call, arenas: Arenas, rng: torch.Generator) -> None:
    """Raises Rejection if a random part of a timed call's answer is wrong, or if it wrote beside its outputs."""
    check_guards(workload, call, arenas, "timing")
    given, answer = operator.sample(call.given, call.answer(), rng)
    reject_if(operator.check(workload, answer, operator.oracle(given), given), workload, "timing")


def check_guards(workload: Workload, call: Call, arenas: Arenas, stage: Stage) -> None:
    """Raises Rejection if something was written beside the outputs."""
    broken = call.broken_guards(arenas)
    if broken:
        raise Rejection(Rejected(stage, f"writes outside {', '.join(broken)} on {workload.name}"))


def reject_if(mismatch: Mismatch | None, workload: Workload, stage: Stage) -> None:
    """Raises Rejection if there is a mismatch."""
    if mismatch is not None:
        when = " in a timed call" if stage == "timing" else ""
        reason = f"wrong on {workload.name} ({workload.role}){when}: {mismatch.reason}"
        raise Rejection(Rejected(stage, reason, mismatch.detail))
