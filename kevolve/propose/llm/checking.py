"""What can be said of a configuration of the llm proposer before anything is started."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from kevolve.errors import UsageError
from kevolve.propose.context.templates import Templates
from kevolve.propose.llm.models import prices, shares


def problems(flat: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(key, what is wrong) for each mistake in a flat configuration."""
    if flat["proposer.name"] in ("llm", "mailbox") and flat["proposer.templates"] is not None:
        yield from _raised("proposer.templates", lambda: Templates(flat["proposer.templates"]))
    if flat["proposer.name"] != "llm":
        return
    yield from _raised("proposer.models", lambda: shares(flat["proposer.models"]))
    yield from _raised("proposer.prices", lambda: prices(flat["proposer.prices"]))
    address = urlsplit(flat["proposer.api_base"] or "http://host")
    if address.scheme not in ("http", "https") or not address.hostname:
        yield "proposer.api_base", "is no address. Type proposer.api_base=http://HOST:PORT/v1."
    elif address.password or address.username:
        yield "proposer.api_base", "must hold no key: it is stored with the run. Type proposer.key_variable=NAME."
    if importlib.util.find_spec("litellm") is None:
        yield "proposer.name", "needs litellm, which is not installed. Type python -m pip install 'kevolve[llm]'."


def _raised(key: str, made: Callable[[], object]) -> Iterator[tuple[str, str]]:
    try:
        made()
    except UsageError as error:
        yield key, re.sub(rf"^{re.escape(key)}(=\S+)?: ", "", str(error))  # whoever complains names the key
