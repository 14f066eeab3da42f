"""What MLflow shows of a run, and that MLflow can never stop one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from kevolve.config import Config, TrackingConfig
from kevolve.summary import Summary
from kevolve.tracking import Tracking
from tests.run_story import DEVICE, SOURCE, WINNER, Story, scored


@pytest.fixture
def config(tmp_path: Path) -> Config:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    return Config(
        operators=["jagged_sum"], name="story", runs_dir=str(tmp_path / "runs"), tracking=TrackingConfig(uri=uri)
    )


@pytest.fixture
def warnings() -> list[str]:
    return []


def play(config: Config, warnings: list[str]) -> Summary:
    """The whole story, heard by one tracking listener."""
    story, tracking = Story(config), Tracking(config, warnings.append)
    for event in story.search():
        tracking.heard(event)
    tracking.flush()
    tracking.heard(story.confirmed(WINNER, scored(1.9)))
    tracking.heard(story.closed())
    summary = story.summary()
    tracking.closed(summary)
    story.population.close()
    return summary


def runs(client: MlflowClient) -> tuple[Run, Run]:
    """The search's run and its only child."""
    experiment = client.get_experiment_by_name("kevolve")
    found = {run.data.tags["kevolve.operator"]: run for run in client.search_runs([experiment.experiment_id])}
    assert sorted(found) == ["all", "jagged_sum"]
    return found["all"], found["jagged_sum"]


def text(client: MlflowClient, run: Run, name: str) -> str:
    return Path(client.download_artifacts(run.info.run_id, name)).read_text()


def test_a_run_can_be_reviewed_and_its_champion_found_by_alias_and_resumed(config: Config, warnings: list[str]) -> None:
    summary = play(config, warnings)
    assert warnings == []
    client = MlflowClient(config.tracking.uri, config.tracking.uri)
    parent, child = runs(client)
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert {parent.info.status, child.info.status} == {"FINISHED"}
    assert parent.data.params["budget.evaluations"] == "60"
    assert json.loads(text(client, parent, "summary.json")) == json.loads(summary.to_json())
    assert "evaluations: 60" in text(client, parent, "config.yaml")
    history = client.get_metric_history(child.info.run_id, "best_speedup")
    assert [(point.step, round(point.value, 6)) for point in history] == [(1, 0.5), (2, 0.5), (3, 2.0), (4, 2.0)]
    assert child.data.metrics["scored_share"] == pytest.approx(2 / 3)
    assert child.data.metrics["rejected_build"] == 1
    assert text(client, child, "champion/program.cpp") == SOURCE
    name = f"kevolve-jagged_sum-{DEVICE}"
    champion = client.get_model_version_by_alias(name, "champion")
    assert champion.tags["kevolve.program"] == WINNER.id
    assert champion.tags["kevolve.parents"] == "0123456789abcdef"
    assert champion.run_id == child.info.run_id

    # The next session of the run goes on with the same MLflow runs and registers nothing twice.
    resumed = replace(config, resume=True)
    story, tracking = Story(resumed), Tracking(resumed, warnings.append)
    tracking.recalled(story.population.recall())
    tracking.heard(story.event("opened", config={}, environment={}, started=time.time()))
    tracking.heard(story.judged(WINNER, scored(2.5), 5))
    tracking.heard(story.closed())
    tracking.closed(story.summary())
    story.population.close()
    assert warnings == []
    assert [run.info.run_id for run in runs(client)] == [parent.info.run_id, child.info.run_id]
    history = client.get_metric_history(child.info.run_id, "speedup")
    assert [(point.step, round(point.value, 6)) for point in history] == [(1, 0.5), (3, 2.0), (5, 2.5)]
    assert len(client.search_model_versions(f"name = '{name}'")) == 1


def test_a_dead_server_costs_one_warning_and_no_time(config: Config, warnings: list[str]) -> None:
    config.tracking.uri = "http://user:secret@127.0.0.1:9/?token=secret"
    begun = time.monotonic()
    play(config, warnings)
    assert time.monotonic() - begun < 5
    assert len(warnings) == 1
    assert "http://127.0.0.1:9/" in warnings[0]
    assert "tracking=none" in warnings[0]
    assert "secret" not in warnings[0]


def test_a_server_that_never_answers_costs_seconds(config: Config, warnings: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config.tracking.uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        play(config, warnings)
        assert time.monotonic() - begun < 12
    assert len(warnings) == 1


@pytest.mark.parametrize(
    "uri", ["sqlite:////nowhere/mlflow.db", "./mlruns", "postgresql://127.0.0.1:9/mlflow", "sqlite:///{tmp}/text.db"]
)
def test_a_store_that_cannot_be_opened_is_not_retried_for_minutes(
    config: Config, warnings: list[str], tmp_path: Path, uri: str
) -> None:
    (tmp_path / "text.db").write_text("this is not a database, and long enough to be taken for one at first\n" * 40)
    config.tracking.uri = uri.format(tmp=tmp_path)
    begun = time.monotonic()
    play(config, warnings)
    assert time.monotonic() - begun < 8
    assert len(warnings) == 1


def test_nothing_is_written_while_events_are_heard(config: Config, warnings: list[str], tmp_path: Path) -> None:
    story, tracking = Story(config), Tracking(config, warnings.append)
    for event in story.search():
        tracking.heard(event)
    story.population.close()
    assert not (tmp_path / "mlflow.db").exists()


def test_listening_imports_no_mlflow() -> None:
    code = "import sys, kevolve.tracking, kevolve.screen; assert not {'mlflow', 'ray', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A real MLflow server of our own, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = [
        "--backend-store-uri",
        f"sqlite:///{tmp_path}/server.db",
        "--artifacts-destination",
        str(tmp_path / "files"),
    ]
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--workers",
        "1",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        *store,
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, **quiet)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_it_answers(address, process)
        yield address, process
    finally:
        kill(process)


def wait_until_it_answers(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail("the MLflow server did not start")


def kill(process: subprocess.Popen[bytes]) -> None:
    """The server and its workers, which are a session of their own."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_server_killed_in_the_middle_keeps_what_it_had_and_costs_one_warning(
    config: Config, warnings: list[str], server: tuple[str, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # While it lives, a server that shares this machine with other tests may be slow.
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    monkeypatch.setattr("kevolve.tracking.store.SERVER_SECONDS", 120.0)
    address, process = server
    config.tracking.uri = address
    summary = play(config, warnings)
    assert warnings == []
    client = MlflowClient(address, address)
    parent, child = runs(client)
    assert json.loads(text(client, parent, "summary.json"))["judged"] == summary.judged
    assert text(client, child, "champion/program.cpp") == SOURCE

    again = replace(config, name="again")
    story, tracking = Story(again), Tracking(again, warnings.append)
    events = list(story.search())
    for event in events[:5]:
        tracking.heard(event)
    tracking.flush()
    assert warnings == []
    kill(process)
    begun = time.monotonic()
    for event in events[5:]:
        tracking.heard(event)
        tracking.flush()
    tracking.closed(story.summary())
    story.population.close()
    assert time.monotonic() - begun < 8
    assert len(warnings) == 1
