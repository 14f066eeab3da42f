"""Calls of models as MLflow traces: all of them, once, on the programs that came of them, and nothing secret."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import pytest
from llm_runs import HERE, MODEL, Fair, calls_of, events_of, numbered, program, wanted
from mlflow import MlflowClient
from scripted_server import Answer, serving

from kevolve import track
from kevolve.config import Config, TrackingConfig
from kevolve.search.evolution import evolve
from kevolve.tracking import Tracking


def traced(made: Config) -> list[Any]:
    """The run's traces, in the order of its calls."""
    client = MlflowClient(made.tracking.uri)
    experiment = client.get_experiment_by_name("kevolve")
    assert experiment is not None
    found = client.search_traces(locations=[experiment.experiment_id], max_results=100)
    return sorted(found, key=lambda trace: int(trace.info.tags["kevolve.call"]))


def test_calls_are_traces_of_the_programs_that_came_of_them_and_hold_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, home = "sk-planted-0123456789abcdef", "/home/somebody-here"
    monkeypatch.setenv("PLANTED_API_KEY", key)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setattr("sys.argv", [f"{home}/project/run.py", f"key={key}"])
    before = mlflow.get_tracking_uri()

    def script(request: dict[str, Any]) -> Answer:
        if len(server.requests) == 1:
            return Answer("I would rather talk.")
        if len(server.requests) == 3:
            return Answer(status=503)
        return Answer(f"Idea: {key} from {home}\n```cpp\n{program(len(server.requests))}```")

    uri, warnings = f"sqlite:///{tmp_path}/mlflow.db", list[str]()
    with serving(lambda request: numbered(server.requests)) as server:
        made = replace(wanted(tmp_path / "runs", server.base, evaluations=1), name="untraced")
        made = replace(made, tracking=TrackingConfig(uri=uri))
        evolve(made, [Tracking(made, warnings.append)], leases=[Fair()], workers=HERE)
        assert traced(made) == [], "nobody asked for them"
    with serving(script) as server:
        made = wanted(
            tmp_path / "runs", server.base, evaluations=2, prices=[f"{MODEL}@1/2"], key_variable="PLANTED_API_KEY"
        )
        made = replace(made, tracking=TrackingConfig(uri=uri, traces=True))
        evolve(made, [Tracking(made, warnings.append)], leases=[Fair()], workers=HERE)
    assert warnings == []
    calls, traces = calls_of(made), traced(made)
    assert [call["outcome"] for call in calls] == ["no program", "program", "failed", "program"]
    assert [trace.info.tags["kevolve.outcome"] for trace in traces] == [call["outcome"] for call in calls]
    children = [e.data["program"]["id"] for e in events_of(made, "proposed") if e.data["asked"] is not None]
    assert [trace.info.tags["kevolve.program"] for trace in traces] == [children[0], children[0], "", children[1]]
    for call, trace in zip(calls, traces, strict=True):
        (span,) = trace.data.spans
        assert "# Task" in span.inputs["prompt"]
        assert span.outputs["reply"].startswith({"no program": "I would", "failed": ""}.get(call["outcome"], "Idea: "))
        assert trace.info.token_usage["input_tokens"] == call["prompt_tokens"]
        assert (span.attributes["cost_usd"], span.attributes["model"]) == (call["cost_usd"], MODEL)
        assert trace.info.execution_duration == pytest.approx(1000 * call["seconds"], abs=1)
        run = MlflowClient(uri).get_run(trace.info.trace_metadata["mlflow.sourceRun"])
        assert run.data.tags["kevolve.operator"] == "jagged_sum"
    assert mlflow.get_tracking_uri() == before

    # What is sent again is there once.
    assert track.main([str(made.name), "--runs-dir", made.runs_dir]) == 0
    assert len(traced(made)) == len(traces)

    told = json.dumps([trace.to_dict() for trace in traced(made)]).encode()
    written = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    for secret in (key, home):
        assert not any(secret.encode() in content for content in (told, *written))
