"""The breaker: a model whose calls keep failing is left alone for a while, and a run whose models all do is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kevolve.errors import FaultsStopped
from kevolve.propose.llm.failures import CallFailed

FAILURES_IN_A_ROW = 3  # each after its retries
REST_SECONDS = 60.0  # then one more call is tried


@dataclass
class _State:
    failures: int = 0
    reason: str = ""
    open_until: float = 0.0


class Breaker:
    """Which of the run's models can be asked."""

    def __init__(self, weights: Mapping[str, float], clock: Callable[[], float] = time.monotonic) -> None:
        self._weights = dict(weights)
        self._clock = clock
        self._states = {model: _State() for model in weights}

    def usable(self) -> dict[str, float]:
        """The weights of the models that can be asked now. FaultsStopped, naming each and why, if there is none."""
        now = self._clock()
        found = {model: weight for model, weight in self._weights.items() if now >= self._states[model].open_until}
        if not found:
            told = "; ".join(
                f"{model} failed {_times(state.failures)}, {state.reason}" for model, state in self._states.items()
            )
            raise FaultsStopped(f"no model answers: {told}.")
        return found

    def succeeded(self, model: str) -> None:
        """A call came back, whatever the reply is worth."""
        self._states[model] = _State()

    def failed(self, model: str, failure: CallFailed) -> None:
        """A call came to nothing. One that no try will help opens the breaker at once."""
        state = self._states[model]
        state.failures += 1
        state.reason = f"the last time: {failure}"
        if not failure.is_passing or state.failures >= FAILURES_IN_A_ROW:
            state.open_until = self._clock() + REST_SECONDS


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times in a row"
