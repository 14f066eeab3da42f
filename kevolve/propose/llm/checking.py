"""What can be said of a configuration of the llm proposer before anything is started."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kevolve.errors import UsageError
from kevolve.propose.context.templates import Templates
from kevolve.propose.llm.keys import check_keys
from kevolve.propose.llm.models import prices, shares

if TYPE_CHECKING:
    from kevolve.config import Config
    from kevolve.propose.llm.client import Client

LITELLM = "needs litellm, which is not installed. Type python -m pip install 'kevolve[llm]'."


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
        yield "proposer.name", LITELLM


def refuse_unready(config: Config) -> None:
    """UsageError if the run's models cannot be asked: no litellm, no key, no price where money is limited.

    Only for a price, or a provider that is not in `keys.py`, litellm is imported: the rest is told at once.
    """
    settings = config.proposer
    if settings.name != "llm":
        return
    models = list(shares(settings.models))
    if importlib.util.find_spec("litellm") is None:
        raise UsageError(f"proposer=llm {LITELLM}\n  Without a model, proposer=genetic needs no key.")
    if check_keys(settings, models) or config.budget.cost_usd is not None:
        from kevolve.propose.llm.client import Client

        refuse_unpriced(config, Client(settings, models, prices(settings.prices)), models)


def refuse_unpriced(config: Config, client: Client, models: Iterable[str]) -> None:
    """UsageError if money is limited and a model's price is not known."""
    unpriced = [model for model in models if client.price(model) is None]
    if config.budget.cost_usd is not None and unpriced:
        raise UsageError(
            f"budget.cost_usd={config.budget.cost_usd:g}: no price is known for {', '.join(unpriced)}. Type"
            f" proposer.prices=[{unpriced[0]}@PROMPT/REPLY], in US dollars per million"
            " tokens (0/0 for a server of your own)."
        )


def _raised(key: str, made: Callable[[], object]) -> Iterator[tuple[str, str]]:
    try:
        made()
    except UsageError as error:
        yield key, re.sub(rf"^{re.escape(key)}(=\S+)?: ", "", str(error))  # whoever complains names the key
