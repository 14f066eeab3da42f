"""The models of a run as its configuration names them: shares, prices, and which one a request goes to."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kevolve.errors import UsageError

MILLION = 1_000_000


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens."""

    prompt: float
    reply: float

    def of(self, prompt_tokens: int, reply_tokens: int) -> float:
        """What a call of that many tokens costs."""
        return (prompt_tokens * self.prompt + reply_tokens * self.reply) / MILLION


def shares(models: Sequence[str]) -> dict[str, float]:
    """`["openai/a*2", "openai/b"]` as {"openai/a": 2.0, "openai/b": 1.0}; UsageError says what is wrong."""
    found: dict[str, float] = {}
    for entry in models:
        name, _, weight = entry.partition("*")
        if "/" not in name.strip("/"):
            raise UsageError(
                f"proposer.models: {name} names no provider. Type proposer.models=[openai/{name or 'MODEL'}], for"
                " example; for a server of your own with proposer.api_base=http://HOST:PORT/v1, too."
            )
        found[name] = found.get(name, 0.0) + _number(weight or "1", f"proposer.models: {entry}", "MODEL*WEIGHT")
    if not found:
        raise UsageError(
            "proposer=llm needs a model. Type proposer.models=[PROVIDER/MODEL], such as proposer.models=[openai/MODEL]"
            " with its key in OPENAI_API_KEY.\n  Without a model, proposer=genetic needs no key."
        )
    return found


def prices(entries: Sequence[str]) -> dict[str, Price]:
    """`["openai/a@0.5/1.5"]` as prices by model; UsageError says what is wrong."""
    found = {}
    for entry in entries:
        name, _, pair = entry.rpartition("@")
        prompt, _, reply = pair.partition("/")
        where = f"proposer.prices: {entry}"
        found[name] = Price(*(_number(text, where, "MODEL@PROMPT/REPLY", least=0.0) for text in (prompt, reply)))
    return found


def chosen(weights: Mapping[str, float], generator: random.Random) -> str:
    """One of the models, in proportion to its weight."""
    return generator.choices(list(weights), list(weights.values()))[0]


def _number(text: str, where: str, form: str, least: float | None = None) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (value > 0 if least is None else value >= least):
        raise UsageError(f"{where} is not of the form {form} with numbers that are not negative.")
    return value
