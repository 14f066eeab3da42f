"""The client: one call of one model through litellm, with its time-outs, its retries and its price.

litellm is an extra and takes seconds to import: only a run that asks models does. It is used for `acompletion` and its
table of prices alone. Retries are ours and there is one layer of them; usage is read from the reply, never from a
callback, which litellm loses with the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kevolve.errors import UsageError
from kevolve.propose.context.fitting import CHARACTERS_PER_TOKEN
from kevolve.propose.llm.failures import CallFailed, failure_of
from kevolve.propose.llm.keys import check_keys, key_of, missing
from kevolve.propose.llm.models import MILLION, Price

if TYPE_CHECKING:
    from types import ModuleType

    from kevolve.config import ProposerConfig

Messages = Sequence[Mapping[str, str]]

BACKOFF_SECONDS = 1.0  # before the first retry; doubles
LONGEST_WAIT = 60.0
# Read by litellm when it is imported: no look for prices on the network, and nothing of a call in any log.
VARIABLES = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "CRITICAL", "LITELLM_MODE": "PRODUCTION"}
# Their lines hold addresses, and addresses may hold keys.
TALKATIVE = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "httpx", "httpcore", "openai", "openai._base_client")


@dataclass(frozen=True)
class Reply:
    """What a model answered. `finish` is why it ended (`stop`, `length`, `content_filter`, ...), as litellm has it."""

    text: str
    finish: str
    prompt_tokens: int
    reply_tokens: int
    seconds: float = 0.0


def tokens_of(text: str) -> int:
    """About how many tokens a text has; rather too many."""
    return int(len(text) / CHARACTERS_PER_TOKEN) + 1


class Client:
    """Calls models. Lives on one event loop; `close` before that does."""

    def __init__(self, settings: ProposerConfig, models: Sequence[str], prices: Mapping[str, Price]) -> None:
        self._settings = settings
        self._litellm = _litellm()
        self._key = key_of(settings)
        for model in check_keys(settings, models):
            _ask_for_keys(self._litellm, model)
        self._slots = {model: asyncio.Semaphore(settings.concurrency) for model in models}
        self._prices = {model: prices.get(model) or _known_price(self._litellm, model) for model in models}

    def price(self, model: str) -> Price | None:
        """None if nobody knows it."""
        return self._prices[model]

    async def complete(self, model: str, messages: Messages, grammar: str = "") -> Reply:
        """The model's reply, held by a grammar if there is one. CallFailed when no try helps."""
        wasted = [0, 0]
        for attempt in range(self._settings.retries + 1):
            try:
                async with self._slots[model]:
                    reply = await self._once(model, messages, grammar)
            except CallFailed as failure:
                wasted[0] += failure.prompt_tokens
                wasted[1] += failure.reply_tokens
                failure.prompt_tokens, failure.reply_tokens = wasted
                if not failure.is_passing or attempt == self._settings.retries:
                    raise
                await asyncio.sleep(_pause(attempt, failure.wait_seconds))
            else:
                return replace(
                    reply, prompt_tokens=reply.prompt_tokens + wasted[0], reply_tokens=reply.reply_tokens + wasted[1]
                )
        raise AssertionError("unreachable")

    async def close(self) -> None:
        """Let go of connections."""
        await self._litellm.close_litellm_async_clients()

    async def _once(self, model: str, messages: Messages, grammar: str) -> Reply:
        heard = _Heard()
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                answer = await self._litellm.acompletion(model=model, messages=list(messages), **self._options(grammar))
                if self._settings.stream:
                    async for chunk in _prompt_pieces(answer, self._settings.stall_seconds):
                        heard.take(chunk, "delta")
                else:
                    heard.take(answer, "message")
        except asyncio.CancelledError:
            raise
        except Exception as error:
            failure = failure_of(error)
            if heard.text:  # it was written, so it is charged for
                failure.prompt_tokens = heard.prompt_tokens or tokens_of("".join(m["content"] for m in messages))
                failure.reply_tokens = heard.reply_tokens or tokens_of(heard.text)
            raise failure from None
        return heard.reply(messages, time.monotonic() - started)

    def _options(self, grammar: str) -> dict[str, Any]:
        settings = self._settings
        options: dict[str, Any] = {
            "max_tokens": settings.reply_tokens,
            "timeout": settings.timeout_seconds,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": True,
        }
        if settings.temperature is not None:
            options["temperature"] = settings.temperature
        if settings.api_base is not None:
            options["api_base"] = settings.api_base
        if self._key is not None:
            options["api_key"] = self._key
        if settings.stream:
            options |= {"stream": True, "stream_options": {"include_usage": True}}
        if grammar:
            options["extra_body"] = {"grammar": grammar}
        return options


class _Heard:
    """A reply as far as it has come."""

    def __init__(self) -> None:
        self.text = ""
        self.finish = ""
        self.prompt_tokens = 0
        self.reply_tokens = 0

    def take(self, chunk: Any, part: str) -> None:
        """One piece of a stream (`delta`), or a whole answer (`message`)."""
        for choice in getattr(chunk, "choices", None) or ():
            self.text += getattr(getattr(choice, part, None), "content", None) or ""
            self.finish = getattr(choice, "finish_reason", None) or self.finish
        usage = getattr(chunk, "usage", None)
        if usage is not None:
            self.prompt_tokens = getattr(usage, "prompt_tokens", 0) or self.prompt_tokens
            self.reply_tokens = getattr(usage, "completion_tokens", 0) or self.reply_tokens

    def reply(self, messages: Messages, seconds: float) -> Reply:
        prompt = self.prompt_tokens or tokens_of("".join(message["content"] for message in messages))
        written = self.reply_tokens or (tokens_of(self.text) if self.text else 0)
        return Reply(self.text, self.finish or "cut off", prompt, written, seconds)


async def _prompt_pieces(stream: Any, stall_seconds: float) -> AsyncIterator[Any]:
    """The pieces of a stream. CallFailed if, once it has begun, there is none for `stall_seconds`."""
    pieces, has_begun = aiter(stream), False
    while True:
        try:
            async with asyncio.timeout(stall_seconds if has_begun else None):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise CallFailed(f"the reply stalled for {stall_seconds:g} s", is_passing=True) from None
        has_begun = True
        yield piece


def _pause(attempt: int, asked: float | None) -> float:
    """Seconds until the next try: as the server says, or twice as long each time, spread so that lanes part."""
    wait = asked if asked is not None else BACKOFF_SECONDS * 2**attempt * random.uniform(0.75, 1.25)
    return min(LONGEST_WAIT, wait)


def _litellm() -> ModuleType:
    """litellm, quiet. UsageError if it is not installed."""
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it has dozens, about itself
            import litellm
    except ImportError as error:
        raise UsageError(
            f"proposer=llm needs litellm, which cannot be imported here ({error}).\n"
            "  Type python -m pip install 'kevolve[llm]' -c constraints.txt, or use proposer=genetic."
        ) from None
    warnings.filterwarnings("ignore", module=r"litellm\.")
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    module: ModuleType = litellm
    return module


def _ask_for_keys(litellm: ModuleType, model: str) -> None:
    """UsageError if litellm knows which variables the model's provider wants, and they are not set."""
    if lacking := litellm.validate_environment(model=model).get("missing_keys"):
        raise missing(model, lacking)


def _known_price(litellm: ModuleType, model: str) -> Price | None:
    """litellm's own price of a model."""
    try:
        about = litellm.get_model_info(model)
    except Exception:  # litellm raises a bare Exception for models that it does not know
        return None
    prompt, reply = about.get("input_cost_per_token"), about.get("output_cost_per_token")
    return None if prompt is None or reply is None else Price(prompt * MILLION, reply * MILLION)
