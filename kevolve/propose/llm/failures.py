"""What goes wrong with a call of a model: is it worth another try, and what may be said of it?

Only the kind of an error, its status and the server's own first line are kept, never the request: its headers hold a
key.
"""

from __future__ import annotations

import asyncio
import re

from kevolve.secrets import scrubbed

PASSING = (408, 409, 425, 429, 500, 502, 503, 504, 529)
_ADVICE = {
    401: "is its key right? It comes from the environment: the provider's own variable, or proposer.key_variable=NAME",
    403: "the key may not use this model",
    404: "is there such a model? Look at proposer.models and proposer.api_base",
    413: "type a smaller proposer.context_tokens",
}
_WORDS = 200  # characters of the server's own words


class CallFailed(Exception):
    """A call came to nothing. `is_passing`: another try may help; `wait_seconds`: when, if the server says so.

    `prompt_tokens` and `reply_tokens` are what it will be charged for all the same, by estimate.
    """

    def __init__(self, words: str, *, is_passing: bool, wait_seconds: float | None = None):
        super().__init__(words)
        self.is_passing = is_passing
        self.wait_seconds = wait_seconds
        self.prompt_tokens = 0
        self.reply_tokens = 0


def failure_of(error: BaseException) -> CallFailed:
    """Any exception of a call as a CallFailed."""
    if isinstance(error, CallFailed):
        return error
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return CallFailed("no answer in time (proposer.timeout_seconds)", is_passing=True)
    status = _status(error)
    kind = type(error).__name__
    if kind == "ContextWindowExceededError":
        return CallFailed("the request is too long for it: type a smaller proposer.context_tokens", is_passing=False)
    is_cut = kind == "MidStreamFallbackError"
    is_connection = kind in ("APIConnectionError", "APIError", "Timeout", "ConnectError", "ClientConnectorError")
    advice = f" ({_ADVICE[status]})" if status in _ADVICE else ""
    number = f"{status} " if status is not None else ""
    words = f"{number}{'reply broken off' if is_cut else kind}: {_words(error)}{advice}"
    is_passing = is_cut or (status in PASSING if status is not None else is_connection)
    return CallFailed(words, is_passing=is_passing, wait_seconds=_wait(error))


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def _words(error: BaseException) -> str:
    """The first line of what the server says, without litellm's own names around it."""
    lines = str(error).strip().splitlines() or [""]
    line = re.sub(r"^(litellm\.\w+: ?|\w+Exception - |\w+Error: ?)+", "", lines[0])
    return scrubbed(re.sub(r"(?i)\b(sk|key|bearer)[-_ :=][^\s,'\"]{6,}", "[key]", line))[:_WORDS]


def _wait(error: BaseException) -> float | None:
    """Seconds that the server asks for (Retry-After)."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    headers = headers or getattr(error, "litellm_response_headers", None) or {}
    try:
        return max(0.0, float(headers["retry-after"]))
    except (KeyError, TypeError, ValueError):
        return None
