"""What each model of a run was good for: calls, what became of them, and how many of its repairs were right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kevolve.events import Event


@dataclass
class ModelTally:
    """One model. `outcomes` counts its replies by what they were; `cost_usd` is None if no price is known.

    `judged` and `scored` are of its programs with a new verdict, `repairs` and `repaired` the same of those programs
    that were to mend a rejected one: `repaired / repairs` is its repair yield.
    """

    calls: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    reply_tokens: int = 0
    cost_usd: float | None = 0.0
    seconds: float = 0.0
    judged: int = 0
    scored: int = 0
    repairs: int = 0
    repaired: int = 0

    def take(self, call: Mapping[str, Any]) -> None:
        """Count one call."""
        self.calls += 1
        self.outcomes[call["outcome"]] = self.outcomes.get(call["outcome"], 0) + 1
        self.prompt_tokens += call["prompt_tokens"]
        self.reply_tokens += call["reply_tokens"]
        self.seconds += call["seconds"]
        cost = call["cost_usd"]
        self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + cost


class ModelTallies:
    """All models of a run, heard from its events."""

    def __init__(self) -> None:
        self.of: dict[str, ModelTally] = {}
        self._origins: dict[str, Mapping[str, Any]] = {}

    def heard(self, event: Event) -> None:
        data = event.data
        match event.kind:
            case "called":
                self.of.setdefault(data["call"]["model"], ModelTally()).take(data["call"])
            case "proposed" if "model" in data["program"].get("origin", ()):
                self._origins.setdefault(data["program"]["id"], data["program"]["origin"])
            case "judged" if data["program"] in self._origins and not data["reused"]:
                self._judged(self._origins[data["program"]], data["judgement"]["verdict"]["verdict"])

    def _judged(self, origin: Mapping[str, Any], verdict: str) -> None:
        if verdict == "Fault":
            return
        tally, is_right = self.of.setdefault(origin["model"], ModelTally()), verdict == "Scored"
        tally.judged += 1
        tally.scored += is_right
        if origin["kind"] == "repair":
            tally.repairs += 1
            tally.repaired += is_right
