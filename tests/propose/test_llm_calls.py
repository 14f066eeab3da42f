"""Calls of models over real HTTP: what servers do to them, and what is made of it."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from llm_runs import MODEL, settings
from scripted_server import Answer, ScriptedServer, in_turn, serving

from kevolve.config import ProposerConfig
from kevolve.errors import UsageError
from kevolve.propose.llm import client as client_room
from kevolve.propose.llm.client import Client, Reply
from kevolve.propose.llm.failures import CallFailed
from kevolve.propose.llm.keys import VARIABLES
from kevolve.propose.llm.models import Price, prices, shares

LONG = "// a line of a program\n" * 40
SAY = [{"role": "user", "content": "hello"}]


@pytest.fixture(autouse=True)
def retries_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_room, "BACKOFF_SECONDS", 0.01)


def called(chosen: ProposerConfig, times: int = 1) -> list[Reply | CallFailed]:
    """The replies to calls at the same time."""

    async def all_of_them() -> list[Reply | CallFailed]:
        client = Client(chosen, [MODEL], {})
        try:
            calls = [client.complete(MODEL, SAY) for _ in range(times)]
            return await asyncio.gather(*calls, return_exceptions=True)  # type: ignore[return-value]
        finally:
            await client.close()

    return asyncio.run(all_of_them())


def one(script: Callable[[dict[str, Any]], Answer], **changes: Any) -> tuple[Reply | CallFailed, ScriptedServer]:
    with serving(script) as server:
        return called(settings(server.base, **changes))[0], server


@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_comes_whole_with_what_it_took(stream: bool) -> None:
    found, server = one(in_turn(Answer(LONG)), stream=stream)
    assert isinstance(found, Reply), found
    assert (found.text, found.finish) == (LONG, "stop")
    assert (found.prompt_tokens, found.reply_tokens) == (1, len(LONG) // 4)
    assert server.requests[0]["model"] == "scripted"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_passing_failure_is_tried_again_and_no_more_often_than_asked(status: int) -> None:
    found, server = one(in_turn(Answer(status=status), Answer(LONG)), retries=1)
    assert isinstance(found, Reply), found
    assert len(server.requests) == 2
    found, server = one(in_turn(Answer(status=status)), retries=2)
    assert isinstance(found, CallFailed)
    assert str(status) in str(found)
    assert len(server.requests) == 3, "one layer of retries: litellm and its clients add none"


def test_a_server_that_asks_for_time_gets_it() -> None:
    started = time.monotonic()
    found, _ = one(in_turn(Answer(status=429, headers={"Retry-After": "1"}), Answer(LONG)), retries=1)
    assert isinstance(found, Reply), found
    assert time.monotonic() - started >= 1


@pytest.mark.parametrize(("status", "told"), [(401, "is its key right?"), (404, "proposer.models"), (400, "400")])
def test_what_no_retry_helps_is_not_tried_again(status: int, told: str) -> None:
    found, server = one(in_turn(Answer(status=status)), retries=3)
    assert isinstance(found, CallFailed)
    assert told in str(found)
    assert not found.is_passing
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("fault", "told"), [("stall", "stalled"), ("broken", "broken off"), ("malformed", "broken off")]
)
def test_a_stream_that_breaks_is_no_reply_but_what_came_is_charged(fault: str, told: str) -> None:
    found, _ = one(in_turn(Answer(LONG, fault=fault)))
    assert isinstance(found, CallFailed), found
    assert found.is_passing
    assert told in str(found)
    assert found.reply_tokens > 0


def test_a_server_that_never_answers_is_given_up() -> None:
    started = time.monotonic()
    found, _ = one(in_turn(Answer(LONG, delay=120)), timeout_seconds=0.4)
    assert isinstance(found, CallFailed)
    assert found.is_passing
    assert time.monotonic() - started < 60
    found = called(settings("http://127.0.0.1:9/v1"))[0]
    assert isinstance(found, CallFailed)
    assert found.is_passing, "a server that is not up yet may be in a while"


@pytest.mark.parametrize(("finish", "text"), [("length", "half a pro"), ("content_filter", ""), ("stop", "")])
def test_how_a_reply_ended_is_told(finish: str, text: str) -> None:
    found, _ = one(in_turn(Answer(text, finish=finish)))
    assert isinstance(found, Reply), found
    assert (found.text, found.finish) == (text, finish)


def test_one_model_is_not_asked_more_often_at_once_than_it_may() -> None:
    at_once, lock = [0, 0], threading.Lock()

    def script(request: dict[str, Any]) -> Answer:
        with lock:
            at_once[0] += 1
            at_once[1] = max(at_once)
        time.sleep(0.05)
        with lock:
            at_once[0] -= 1
        return Answer("x")

    with serving(script) as server:
        assert all(isinstance(found, Reply) for found in called(settings(server.base, concurrency=3), times=12))
    assert 1 < at_once[1] <= 3


def test_prices_and_shares_are_read_or_refused() -> None:
    assert shares(["openai/a*2", "anthropic/b"]) == {"openai/a": 2.0, "anthropic/b": 1.0}
    assert prices(["openai/a@0.5/1.5"]) == {"openai/a": Price(0.5, 1.5)}
    assert Price(0.5, 1.5).of(1000, 2000) == pytest.approx(0.0035)
    for wrong in (["gpt"], ["openai/a*-1"], ["openai/a*many"], []):
        with pytest.raises(UsageError, match=r"proposer\.models"):
            shares(wrong)
    with pytest.raises(UsageError, match="MODEL@PROMPT/REPLY"):
        prices(["openai/a@1"])
    assert Client(settings("http://x"), ["openai/gpt-4o-mini"], {}).price("openai/gpt-4o-mini") is not None


def test_a_key_that_is_missing_is_named_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with pytest.raises(UsageError, match=r"the environment lacks OPENAI_API_KEY. Type export OPENAI_API_KEY="):
        Client(ProposerConfig(), ["openai/gpt-4o-mini"], {})
    with pytest.raises(UsageError, match=r"the environment lacks AZURE_API_BASE, AZURE_API_VERSION, AZURE_API_KEY"):
        Client(ProposerConfig(), ["azure/gpt-4o-mini"], {})
    with pytest.raises(UsageError, match="key_variable=NOT_SET_HERE: the environment has no such variable"):
        Client(ProposerConfig(key_variable="NOT_SET_HERE"), ["openai/gpt-4o-mini"], {})


def test_what_is_known_of_keys_without_litellm_is_what_litellm_says(monkeypatch: pytest.MonkeyPatch) -> None:
    import litellm

    for name in itertools.chain(*VARIABLES.values()):
        monkeypatch.delenv(name, raising=False)
    for provider, names in VARIABLES.items():
        asked = litellm.validate_environment(model=f"{provider}/model")
        assert set(asked["missing_keys"]) <= set(names), provider
        for name in names:
            with monkeypatch.context() as one:
                one.setenv(name, "a key")
                assert litellm.validate_environment(model=f"{provider}/model")["keys_in_environment"], name
