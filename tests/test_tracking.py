"""What MLflow shows of a run, and that MLflow can never stop one."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts
from mlflow.entities import Run

from kevolve import track
from kevolve.champions.__main__ import main as champions
from kevolve.config import Config, TrackingConfig
from kevolve.summary import Summary
from kevolve.tracking import Tracking
from kevolve.tracking.models import why_beaten
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


def test_a_run_can_be_reviewed_and_its_champion_found_by_alias_and_resumed(
    config: Config, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", config.tracking.uri)
    summary = play(config, warnings)
    assert warnings == []
    client = MlflowClient(config.tracking.uri, config.tracking.uri)
    parent, child = runs(client)
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert {parent.info.status, child.info.status} == {"FINISHED"}
    assert parent.data.params["budget.evaluations"] == "60"
    assert json.loads(text(client, parent, "summary.json")) == json.loads(summary.to_json())
    assert "evaluations: 60" in text(client, parent, "config.yaml")
    history = client.get_metric_history(child.info.run_id, "best_first_look")
    assert [(point.step, round(point.value, 6)) for point in history] == [(1, 0.5), (2, 0.5), (3, 2.0), (4, 2.0)]
    assert child.data.metrics["scored_share"] == pytest.approx(2 / 3)
    assert child.data.metrics["rejected_build"] == 1
    assert child.data.metrics["median_first_look"] == pytest.approx(1.25)
    assert child.data.metrics["diversity"] == 0.5
    assert text(client, child, "champion/program.cpp") == SOURCE
    assert "1.90x" in parent.data.tags["mlflow.note.content"]
    assert child.data.tags["kevolve.state"] == "faster"
    assert [entry.dataset.name for entry in child.inputs.dataset_inputs] == ["jagged_sum workloads"]
    table = client.load_table(parent.info.experiment_id, "lineage.json", [parent.info.run_id])
    assert table.set_index("program").loc[WINNER.id, "speedup"] == 2.0
    (model,) = client.search_logged_models([parent.info.experiment_id], "tags.`kevolve.champion` = 'true'")
    assert {metric.key: metric.value for metric in model.metrics}["confirmed_speedup"] == pytest.approx(1.9)
    assert child.data.metrics["confirmed_speedup"] == pytest.approx(1.9)
    name = f"kevolve.jagged_sum.{DEVICE}"
    champion = client.get_model_version_by_alias(name, "champion")
    assert champion.tags["kevolve.model"] == model.model_id
    files = download_artifacts(f"models:/{name}@champion", tracking_uri=config.tracking.uri)
    assert (Path(files) / "program.cpp").read_text() == SOURCE
    assert champion.tags["kevolve.program"] == WINNER.id
    assert (champion.tags["kevolve.operator"], champion.tags["kevolve.device"]) == ("jagged_sum", DEVICE)
    assert (child.data.tags["kevolve.device"], child.info.run_name) == (DEVICE, f"jagged_sum-{DEVICE}")
    assert champion.tags["kevolve.parents"] == "0123456789abcdef"
    assert champion.run_id == child.info.run_id

    # The next session of the run goes on with the same MLflow runs and registers nothing twice.
    resumed = replace(config, resume=True)
    story, tracking = Story(resumed), Tracking(resumed, warnings.append)
    tracking.recalled(story.population.recall())
    tracking.heard(story.event("opened", config=asdict(resumed), environment={DEVICE: {}}, started=time.time()))
    tracking.heard(story.judged(WINNER, scored(2.5), 5))
    tracking.heard(story.closed())
    tracking.closed(story.summary())
    story.population.close()
    assert warnings == []
    assert [run.info.run_id for run in runs(client)] == [parent.info.run_id, child.info.run_id]
    history = client.get_metric_history(child.info.run_id, "first_look_speedup")
    assert [(point.step, round(point.value, 6)) for point in history] == [(1, 0.5), (3, 2.0), (5, 2.5)]
    assert len(client.search_model_versions(f"name = '{name}'")) == 1
    assert len(client.search_logged_models([parent.info.experiment_id])) == 1
    assert len(client.load_table(parent.info.experiment_id, "lineage.json", [parent.info.run_id])) == 4


@pytest.mark.parametrize(
    ("holder", "challenger", "is_beaten"),
    [
        (None, {}, True),
        ({"kevolve.interval": "1.5 to 1.7"}, {}, True),
        ({"kevolve.interval": "1.5 to 1.9"}, {}, False),  # faster, but the intervals overlap
        ({"kevolve.interval": "3.0 to 3.1", "kevolve.operator_version": "0"}, {}, True),  # another operator by now
        ({"kevolve.interval": "1.0 to 1.1"}, {"kevolve.baselines": "eager"}, False),  # over weaker rivals
        ({"kevolve.interval": "3.0 to 3.1", "kevolve.baselines": "eager"}, {}, True),
    ],
)
def test_a_champion_is_replaced_only_by_one_that_is_surely_faster(
    holder: dict[str, str] | None, challenger: dict[str, str], is_beaten: bool
) -> None:
    same = {"kevolve.program": "a", "kevolve.baselines": "all", "kevolve.operator_version": "1"}
    new = {**same, "kevolve.program": "b", "kevolve.interval": "1.8 to 2.0", **challenger}
    assert (why_beaten({**same, **holder} if holder else None, new) is not None) == is_beaten


def test_what_a_dead_server_missed_is_sent_later(
    config: Config, warnings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    uri, config.tracking.uri = config.tracking.uri, "http://127.0.0.1:9"
    play(config, warnings)
    assert "python -m kevolve.track story" in warnings[0]
    assert track.main(["story", "--runs-dir", config.runs_dir]) == 4
    assert "cannot be written" in capsys.readouterr().err
    for _ in range(2):  # the second time finds everything there
        assert track.main(["story", "--runs-dir", config.runs_dir, "--uri", uri]) == 0
    client = MlflowClient(uri, uri)
    parent, child = runs(client)
    assert [point.step for point in client.get_metric_history(child.info.run_id, "best_first_look")] == [1, 2, 3, 4]
    assert "1.90x" in text(client, parent, "report.html")
    assert client.get_model_version_by_alias(f"kevolve.jagged_sum.{DEVICE}", "champion").version == 1
    nowhere = ["--champions-dir", "nowhere", "--runs-dir", "nowhere"]
    assert champions(["--registry", uri, "--operator", "jagged_sum", *nowhere]) == 0
    assert "1.9000x" in capsys.readouterr().out
    assert champions(["--registry", "sqlite:////nowhere/mlflow.db", *nowhere]) == 2
    capsys.readouterr()
    assert track.main(["stroy", "--runs-dir", config.runs_dir]) == 2
    assert "Did you mean story?" in capsys.readouterr().err


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
