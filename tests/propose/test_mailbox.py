"""The mailbox: requests as files, answered by whoever likes, also while the run is not there, and by tools."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kevolve.config import Config, ProposerConfig
from kevolve.errors import UsageError
from kevolve.mcp import story
from kevolve.mcp.mailbox import Requests
from kevolve.program import Program
from kevolve.propose import mailbox
from kevolve.search.evolution import evolve
from kevolve.search.proposing import proposing
from kevolve.summary import Summary
from kevolve.verdict import Fitness, Measurement, Rejected, Scored, Verdict
from tests.search.search_stubs import LOCAL, StubLease, config, events_of

REPLY = """Idea: number {n}
```cpp
#include "kevolve.h"
extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {{
    out[0] = {n};
}}
```
"""


@pytest.fixture(autouse=True)
def looks_are_frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "LOOK_SECONDS", 0.02)


def wanted(runs: Path, evaluations: int = 2) -> Config:
    return replace(config(runs, evaluations=evaluations), proposer=ProposerConfig(name="mailbox", repairs=1))


def is_right(program: Program) -> Verdict:
    """A judge's word."""
    measured = Measurement("main", "search", 1.0, "eager", 10.0, 5.0, 2.0, (2.0, 2.0), 2.0)
    return Scored(Fitness.of([measured]), (measured,))


class Person:
    """Somebody at the mailbox of a run, in a thread; what goes wrong with them ends the run."""

    def __init__(self, made: Config, acts: Callable[[Requests], None]) -> None:
        self.requests = Requests(Path(made.runs_dir) / str(made.name))
        self.acts = acts
        self.trouble: list[BaseException] = []
        self.thread = threading.Thread(target=self.live, daemon=True)

    def come(self, interrupt: Callable[[], object]) -> None:
        self.interrupt = interrupt
        self.thread.start()

    def live(self) -> None:
        try:
            self.acts(self.requests)
        except Leaves:
            self.interrupt()
        except BaseException as error:
            self.trouble.append(error)
            self.interrupt()


class Leaves(Exception):
    """The person ends the run."""


def run(made: Config, acts: Callable[[Requests], None], lease: StubLease | None = None) -> Summary:
    """A run with somebody at its mailbox."""
    person, workers = Person(made, acts), replace(LOCAL, proposing=proposing)
    summary = evolve(made, leases=[lease or StubLease()], workers=workers, on_start=person.come)
    person.thread.join(10)
    assert person.trouble == []
    return summary


def awaited(found: Callable[[], str]) -> str:
    """What `found` gives once it gives something."""
    until = time.monotonic() + 60
    while not (text := found()):
        assert time.monotonic() < until, "nothing came"
        time.sleep(0.01)
    return text


def judged(requests: Requests, name: str) -> str:
    """What came of a request's answer."""
    return awaited(lambda: "" if "not judged" in (text := requests.verdict(name)) else text)


def test_whoever_answers_is_judged_like_any_other(tmp_path: Path) -> None:
    told: list[str] = []

    def person(requests: Requests) -> None:
        first = awaited(lambda: next(iter(requests.open()), ""))
        assert "# Task" in requests.take(first)
        requests.submit(first, "I would make it faster.")
        told.append(judged(requests, first))
        requests.submit(first, REPLY.format(n=1))
        told.append(judged(requests, first))
        second = awaited(lambda: next(iter(requests.open()), ""))
        requests.submit(second, REPLY.format(n=2))

    summary = run(wanted(tmp_path), person, StubLease(script=is_right))
    assert summary.judged == 3
    assert "neither a SEARCH/REPLACE block nor a program" in told[0]
    assert told[1].startswith("It is right, and")
    origins = [e.data["program"]["origin"] for e in events_of(wanted(tmp_path)) if e.kind == "proposed"]
    assert [origin.get("idea") for origin in origins[1:]] == ["number 1", "number 2"]


def test_a_request_is_answered_while_the_run_is_away(tmp_path: Path) -> None:
    def leave(requests: Requests) -> None:
        awaited(lambda: next(iter(requests.open()), ""))
        raise Leaves

    made = wanted(tmp_path)
    assert run(made, leave).stopped == "interrupted"
    requests = Requests(Path(made.runs_dir) / str(made.name))
    (name,) = requests.open()
    text = requests.take(name)
    requests.submit(name, REPLY.format(n=1))

    def person(requests: Requests) -> None:
        second = awaited(lambda: next(iter(requests.open()), ""))
        assert second != name
        requests.submit(second, REPLY.format(n=2))

    assert run(replace(made, resume=True), person).judged == 3
    assert requests.take(name) == text


def test_a_request_can_be_declined_and_a_rejected_program_comes_back(tmp_path: Path) -> None:
    lease = StubLease(script=lambda p: Rejected("build", "does not compile: no `y`") if "= 1;" in p.source else None)

    def person(requests: Requests) -> None:
        for reply in ("skip\n", REPLY.format(n=1), REPLY.format(n=5)):
            name = awaited(lambda: next(iter(requests.open()), ""))
            if "= 5" in reply:
                assert name.endswith("-repair")
                assert "does not compile: no `y`" in requests.take(name)
            requests.submit(name, reply)

    made = wanted(tmp_path)
    run(made, person, lease)
    assert [e.data["reason"] for e in events_of(made) if e.kind == "refused"] == [
        "whoever read the request declined it"
    ]


def test_two_agents_do_not_get_the_same_request(tmp_path: Path) -> None:
    for name in ("0001-draft", "0002-improve"):
        (tmp_path / "mailbox" / name).mkdir(parents=True)
        (tmp_path / "mailbox" / name / "request.md").write_text(f"do {name}")
    requests = Requests(tmp_path)
    assert [requests.take()[:18], requests.take()[:20], requests.take()] == [
        "request 0001-draft",
        "request 0002-improve",
        "",
    ]
    requests.submit("0001-draft", "skip")
    with pytest.raises(UsageError, match="answered already"):
        requests.submit("0001-draft", "skip")
    with pytest.raises(UsageError, match="Did you mean 0001-draft"):
        requests.submit("0001-drafd", "skip")
    with pytest.raises(UsageError, match="empty"):
        requests.submit("0002-improve", " ")


def test_an_agent_does_the_same_with_the_tools_of_the_protocol(tmp_path: Path) -> None:
    mcp = pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    from kevolve.mcp.__main__ import server

    made = wanted(tmp_path, evaluations=1)
    folder = Path(made.runs_dir) / str(made.name)

    async def agent() -> dict[str, str]:
        async with mcp.Client(server(folder)) as client:

            async def use(tool: str, **arguments: str) -> str:
                return str((await client.call_tool(tool, arguments)).content[0].text)

            names = {tool.name for tool in (await client.list_tools()).tools}
            assert names >= {"take_request", "submit_program", "read_verdict", "search_knowledge", "program_story"}
            text = await use("take_request")
            name = text.split()[1]
            await use("submit_program", request=name, reply=REPLY.format(n=1))
            while "not judged" in (verdict := await use("read_verdict", request=name)):
                await asyncio.sleep(0.02)
            return {"text": text, "verdict": verdict, "best": await use("best_programs")}

    found: dict[str, str] = {}

    def person(requests: Requests) -> None:
        awaited(lambda: next(iter(requests.open()), ""))
        found.update(asyncio.run(agent()))

    run(made, person, StubLease())
    assert "# Task" in found["text"]
    assert "jagged_sum on cpu-stub" in found["best"]
    child = [e.data["program"]["id"] for e in events_of(made) if e.kind == "proposed"][-1]
    assert "out[0] = 1;" in story.story_of(folder, child)
