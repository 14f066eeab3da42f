"""Runs with models: budgets, breaker, resuming, repairs, and what is on record. The judge is a stub."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from llm_runs import MODEL, Fair, calls_of, events_of, is_right, numbered, program, run, summary_of, wanted
from scripted_server import Answer, in_turn, serving

from kevolve.errors import FaultsStopped, UsageError
from kevolve.population import read_text
from kevolve.program import Program
from kevolve.propose.llm import client as client_room
from kevolve.verdict import Rejected, Verdict

LOOP = "    for (int64_t b = 0; b < batch; b++) {\n"
SAME = f"<<<<<<< SEARCH\n{LOOP}=======\n{LOOP}>>>>>>> REPLACE"


@pytest.fixture(autouse=True)
def retries_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_room, "BACKOFF_SECONDS", 0.01)


def right_but(*wrong: int) -> Fair:
    """A judge that finds all programs right but those with these numbers."""

    def script(judged: Program) -> Verdict:
        found = re.search(r"out\[0\] = (\d+)", judged.source)
        if found and int(found[1]) in wrong:
            return Rejected("correctness", "wrong on main", "out[0]: expected 1")
        return is_right(judged)

    return Fair(script=script)


def test_prompt_reply_and_cost_of_every_call_hang_on_the_program(tmp_path: Path) -> None:
    with serving(lambda request: numbered(server.requests)) as server:
        made = wanted(tmp_path, server.base, prices=[f"{MODEL}@1/2"])
        summary = run(made)
    calls = calls_of(made)
    assert summary.tokens == sum(call["prompt_tokens"] + call["reply_tokens"] for call in calls) > 0
    expected = sum(call["prompt_tokens"] + 2 * call["reply_tokens"] for call in calls) / 1e6
    assert summary.cost_usd == pytest.approx(expected)
    children = [e.data["program"] for e in events_of(made, "proposed") if e.data["asked"] is not None]
    folder = Path(made.runs_dir) / str(made.name)
    for child in children:
        (call,) = child["origin"]["calls"]
        assert call in calls
        assert child["origin"]["idea"].startswith("number ")
        assert "# Task" in read_text(folder, call["prompt"])
        assert "```cpp" in read_text(folder, call["reply"])
        assert call["seconds"] > 0
    tally = summary_of(made)["models"][MODEL]
    assert (tally["calls"], tally["outcomes"]) == (len(calls), {"program": len(calls)})
    assert tally["judged"] == len(children)


def test_a_budget_of_tokens_is_kept_to_and_the_run_ends_cleanly(tmp_path: Path) -> None:
    with serving(lambda request: numbered(server.requests)) as server:
        made = wanted(tmp_path, server.base, evaluations=50, lanes=4, tokens=14_000, reply_tokens=2000)
        summary = run(made)
        assert 0 < summary.tokens <= 14_000
        assert events_of(made, "closed")[-1].data["reason"] == "spent"
        assert summary.results[0].best is not None
        assert summary.results[0].best.confirmed, "what was paid for is used"
        asked = len(server.requests)
        assert len(calls_of(made)) == asked
        more = replace(made, resume=True, budget=replace(made.budget, tokens=28_000))
        assert 14_000 < run(more).tokens <= 28_000
        assert len(server.requests) > asked


def test_a_budget_of_money_counts_what_is_under_way(tmp_path: Path) -> None:
    with serving(lambda request: replace(numbered(server.requests), delay=0.2)) as server:
        made = wanted(
            tmp_path, server.base, evaluations=50, lanes=8, cost_usd=0.02, prices=[f"{MODEL}@1/2"], reply_tokens=2000
        )
        summary = run(made)
    assert 0 < summary.cost_usd <= 0.02
    assert events_of(made, "closed")[-1].data["reason"] == "spent"


def test_a_budget_of_money_without_a_price_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Type proposer.prices=\[openai/scripted@"):
        run(wanted(tmp_path, "http://127.0.0.1:9/v1", cost_usd=1.0))


def test_a_server_that_fails_stops_the_run_by_name_and_a_resume_goes_on(tmp_path: Path) -> None:
    with serving(lambda r: numbered(server.requests) if len(server.requests) < 3 else Answer(status=503)) as server:
        made = wanted(tmp_path, server.base, evaluations=6, lanes=2, retries=1)
        with pytest.raises(
            FaultsStopped, match=r"no model answers: openai/scripted failed [3-6] times in a row.*503[\s\S]*resume=true"
        ):
            run(made)
        port = server.port
    before = events_of(made)
    paid = [e for e in before if e.kind == "proposed" and e.data["asked"] is not None]
    assert len(paid) == 2
    with serving(lambda request: numbered([None] * 10 + server.requests), port) as server:  # type: ignore[list-item]
        summary = run(replace(made, resume=True))
    assert summary.stopped == "finished"
    after = events_of(made)
    assert [e.data for e in after[: len(before)]] == [e.data for e in before]
    open_before = {e.data["asked"] for e in before if e.kind == "asked"} - {e.data["asked"] for e in paid}
    assert open_before <= {e.data["asked"] for e in after if e.kind == "proposed"}, "its requests are answered now"


@pytest.mark.parametrize("kind", ["asked", "called", "proposed", "submitted", "judged"])
def test_a_run_that_is_killed_after_any_step_of_a_request_goes_on_and_judges_nothing_twice(
    tmp_path: Path, kind: str
) -> None:
    with serving(lambda request: numbered(server.requests)) as server:
        made = wanted(tmp_path, server.base, evaluations=3, repairs=1)
        run(made, right_but(1))
        log = Path(made.runs_dir) / str(made.name) / "events.jsonl"
        lines = log.read_bytes().splitlines(keepends=True)
        kept = [event.seq for event in events_of(made) if event.kind == kind][1]
        log.write_bytes(b"".join(lines[:kept]))
        summary = run(replace(made, resume=True), right_but(1))
    numbers = [e.data["number"] for e in events_of(made, "judged") if not e.data["reused"]]
    assert numbers == [0, 1, 2, 3]
    assert summary.tokens == sum(call["prompt_tokens"] + call["reply_tokens"] for call in calls_of(made))
    assert len({e.data["asked"] for e in events_of(made, "asked")}) == 3


def test_a_wrong_key_is_not_tried_twice(tmp_path: Path) -> None:
    with serving(in_turn(Answer(status=401))) as server:
        with pytest.raises(FaultsStopped, match=r"openai/scripted failed once.*401.*is its key right\?"):
            run(wanted(tmp_path, server.base))
        assert len(server.requests) == 1


def test_of_two_models_the_one_that_works_goes_on(tmp_path: Path) -> None:
    def script(request: dict[str, Any]) -> Answer:
        return numbered(server.requests) if request["model"] == "scripted" else Answer(status=404)

    with serving(script) as server:
        made = wanted(tmp_path, server.base, models=["openai/gone*9", MODEL])
        summary = run(made)
    assert summary.judged == 5
    assert summary.models["openai/gone"].outcomes == {"failed": 1}


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Answer("half", finish="length"), "cut off"),
        (Answer("", finish="content_filter"), "filtered"),
        (Answer(""), "empty"),
        (Answer(SAME), "equal"),
    ],
)  # fmt: skip
def test_a_reply_that_is_no_program_is_counted_and_never_judged(tmp_path: Path, answer: Answer, outcome: str) -> None:
    lease = Fair()
    with serving(lambda r: answer if len(server.requests) == 1 else numbered(server.requests)) as server:
        made = wanted(tmp_path, server.base, evaluations=2)
        run(made, lease)
    assert [call["outcome"] for call in calls_of(made)] == [outcome, "program", "program"]
    assert len(lease.judged) == 3, "the starting program and two children"
    (refused,) = events_of(made, "refused")
    assert refused.data["reason"].startswith(f"{MODEL}: {outcome}")


def test_a_block_that_does_not_match_gets_one_turn_with_the_reason(tmp_path: Path) -> None:
    wrong = "<<<<<<< SEARCH\n    for (int b = 0;\n=======\n    x\n>>>>>>> REPLACE"
    with serving(lambda r: Answer(wrong) if len(server.requests) == 1 else numbered(server.requests)) as server:
        made = wanted(tmp_path, server.base, evaluations=1)
        run(made)
        assert "Nearest to them" in server.prompts()[1]
        assert server.requests[1]["messages"][2]["content"] == wrong
    assert [(call["purpose"], call["outcome"]) for call in calls_of(made)][1:] == [("edit", "program")]
    child = events_of(made, "proposed")[-1].data["program"]
    assert len(child["origin"]["calls"]) == 2, "both turns hang on the program"


def test_a_first_turn_is_not_paid_for_again_when_the_second_fails(tmp_path: Path) -> None:
    def script(request: dict[str, Any]) -> Answer:
        if len(request["messages"]) > 2:
            return Answer(status=500)
        return Answer("I would rather talk.") if len(server.requests) == 1 else numbered(server.requests)

    with serving(script) as server:
        made = wanted(tmp_path, server.base, evaluations=1)
        run(made)
    assert [call["outcome"] for call in calls_of(made)] == ["no program", "failed", "program"]
    (refused,) = events_of(made, "refused")
    assert not refused.data["fault"]


def test_a_wrong_program_is_repaired_in_its_lineage_and_the_yield_is_counted(tmp_path: Path) -> None:
    with serving(lambda request: numbered(server.requests)) as server:
        made = wanted(tmp_path, server.base, evaluations=3, repairs=2)
        summary = run(made, right_but(1, 2))
        repairs = [prompt for prompt in server.prompts() if "was rejected" in prompt]
    asked = [event.data["request"] for event in events_of(made, "asked")]
    assert [request["kind"] for request in asked][1:3] == ["repair", "repair"]
    ids = [e.data["program"]["id"] for e in events_of(made, "proposed") if e.data["asked"] is not None]
    assert [request["parents"] for request in asked][1:3] == [[ids[0]], [ids[1]]]
    assert "out[0]: expected 1" in repairs[0]
    assert "number 1: rejected (correctness)" in repairs[1], "it hears what was tried before"
    assert (summary.models[MODEL].repairs, summary.models[MODEL].repaired) == (2, 1)


def test_repairs_in_a_row_have_an_end(tmp_path: Path) -> None:
    with serving(lambda request: numbered(server.requests)) as server:
        made = wanted(tmp_path, server.base, evaluations=6, repairs=2)
        run(made, right_but(*range(20)))
    kinds = [event.data["request"]["kind"] for event in events_of(made, "asked")]
    assert [kind == "repair" for kind in kinds] == [False, True, True, False, True, True]


def test_no_key_and_no_home_is_in_anything_that_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, home = "sk-planted-0123456789abcdef", "/home/somebody-here"
    monkeypatch.setenv("PLANTED_API_KEY", key)
    monkeypatch.setenv("HOME", home)

    def script(request: dict[str, Any]) -> Answer:
        if len(server.requests) == 2:
            return Answer(status=503)
        return Answer(f"Idea: {key} from {home}/notes\n// {key}\n{program(len(server.requests))}")

    with serving(script) as server:
        made = wanted(tmp_path, server.base, key_variable="PLANTED_API_KEY", retries=1)
        run(made)
        assert f"Bearer {key}" in server.headers[0].values(), "the server gets it"
        assert key not in json.dumps(server.requests)
    folder = Path(made.runs_dir) / str(made.name)
    written = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    blobs = [read_text(folder, file.name).encode() for file in folder.glob("blobs/*/*")]
    assert len(blobs) > 8
    for secret in (key, home):
        assert not any(secret.encode() in content for content in (*written, *blobs))
    assert os.environ["PLANTED_API_KEY"] == key
