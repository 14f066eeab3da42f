"""A child with the program loaded. Turns whatever goes wrong there into a `Rejection`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kevolve.judge.correctness import Patience, Rejection
from kevolve.judge.cuda.content import Call
from kevolve.judge.cuda.peer import Peer, Queueing
from kevolve.judge.sandbox.exits import ChildLate, Exit
from kevolve.languages.language import Built
from kevolve.languages.triton.build import VARIANT
from kevolve.operators.operator import Operator
from kevolve.verdict import Rejected, Stage

_LOAD_SECONDS = 20.0
_QUEUE_SECONDS = 2e-5  # for a call, until it is known
_MOST_WAIT_SECONDS = 0.002  # all that a program could gain by a wait


class Runner:
    """Runs calls of one program."""

    def __init__(self, operator: Operator, built: Built, child: Peer, patience: Patience):
        self.operator = operator
        self.child = child
        self.patience = patience
        self.stage: Stage = "correctness"
        self.doing = "while it was loaded"
        self.queueing = Queueing(_QUEUE_SECONDS, _MOST_WAIT_SECONDS)
        self.calls = 0
        self.resources = self._load(built)

    def _load(self, built: Built) -> dict[str, Any]:
        file = built.open(VARIANT, built.entry)
        answer = self.child.ask({"op": "load", "entry": built.entry}, _LOAD_SECONDS, [file.fileno()])
        file.close()
        if "error" in answer:
            raise Rejection(Rejected("correctness", f"the program cannot be loaded: {answer['error']}"))
        resources: dict[str, Any] = answer["resources"]
        return resources

    def prepare(self, workload: str, calls: Sequence[Call]) -> None:
        """Bind calls for `run`."""
        self.doing = f"on {workload}"
        message = {"op": "prepare", "calls": [call.arguments(self.operator) for call in calls]}
        self._told(self.child.ask(message, _LOAD_SECONDS))
        self.calls = len(calls)

    def run(self, *, waits: bool = True) -> tuple[float, float]:
        """Run the prepared calls: the judge's window and the device's own time, both in seconds.

        The device waits for all calls to be queued, if it waits; the window is without that.
        """
        start = time.perf_counter()
        try:
            wait_s = self.queueing.wait_s(self.calls) if waits else 0.0
            window, answer = self.child.go(self.patience.next(), wait_s)
        finally:
            self.patience.left -= time.perf_counter() - start
        self._told(answer)
        self.queueing.took(float(answer["queued"]), self.calls)
        return window, float(answer["seconds"])

    def _told(self, answer: dict[str, Any]) -> None:
        if "error" in answer:
            raise Rejection(Rejected(self.stage, f"fails {self.doing}: {answer['error']}"))

    def rejection(self, error: Exception, ended: Exit) -> Rejected:
        """The verdict on a program whose child ended, or did not answer in time."""
        if isinstance(error, ChildLate):
            limit = min(self.patience.call, max(self.patience.left, 0.0)) or self.patience.call
            return Rejected(self.stage, f"did not finish within {limit:.3g} s {self.doing}", ended.output)
        return Rejected(self.stage, f"{ended.describe()} {self.doing}", ended.output)
