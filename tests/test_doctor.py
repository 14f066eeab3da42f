"""The doctor says what is missing and what to type, and its exit status can be relied on."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import kevolve.devices.__main__ as devices
import kevolve.doctor.__main__ as doctor
from kevolve.config import Config, TrackingConfig
from kevolve.devices.cpu import Cpu
from kevolve.doctor.folders import runs
from kevolve.doctor.machine import cpu_quota
from kevolve.doctor.ray_cluster import leftovers
from kevolve.doctor.tracking import newest_schema, tracking
from kevolve.population import Population
from kevolve.search.cluster import OBJECT_STORE_BYTES


def test_a_machine_that_can_evolve_is_told_so_in_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    begun = time.monotonic()
    assert doctor.main([]) == 0
    assert time.monotonic() - begun < 60  # about 8 s on an idle machine
    told = capsys.readouterr().out
    for what in ("python", "ray ", "g++", "OpenMP", "sandbox", "device", "self-test", "mlflow", "torch"):
        assert what in told
    assert "the judge keeps its promises" in told
    assert "Ready to evolve." in told


def test_a_missing_compiler_is_named_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.main(["tracking=none"]) == 1
    told = capsys.readouterr().out
    assert "apt-get install g++" in told
    assert "mend what says LACK" in told


def test_a_missing_package_is_named_before_anything_that_needs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def version_without_hydra(package: str) -> str:
        if package == "hydra-core":
            raise PackageNotFoundError(package)
        return version(package)

    monkeypatch.setattr("kevolve.doctor.versions.version", version_without_hydra)
    assert doctor.main([]) == 1
    told = capsys.readouterr().out
    assert "not installed: hydra-core" in told
    assert "make setup" in told
    assert "device" not in told.replace("The cpu device", "")


def test_what_it_prints_can_be_pasted_into_a_bug_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KEVOLVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "secret")
    assert doctor.main(["tracking.uri=http://me:secret@127.0.0.1:9", "--json", "judge.self_test=false"]) == 0
    told = capsys.readouterr().out
    listed = json.loads(told)
    findings = {finding["what"]: finding for finding in listed}
    cpu = next(finding["state"] for finding in listed if finding["state"].startswith("cpu: "))
    assert "secret" not in told
    assert str(tmp_path) not in told
    assert findings["cache"]["state"].startswith("0 measured peaks")
    assert findings["mlflow"]["state"].startswith("http://127.0.0.1:9: ")
    assert "tracking=none" in findings["mlflow"]["mend"]
    assert "MLFLOW_TRACKING_PASSWORD" in findings["environment"]["state"]
    assert findings["ray token"]["state"] == "given by RAY_AUTH_TOKEN"
    assert "not measured yet" in cpu
    assert Cpu().key in cpu
    assert {"python", "kevolve", "packages", "g++", "system", "sandbox", "proposer", "ray", "torch"} <= set(findings)


def test_a_run_that_was_stopped_is_shown_with_what_goes_on_with_it(tmp_path: Path) -> None:
    for name in ("ended", "killed", "held"):
        with Population(tmp_path / name) as population:
            population.append("opened", {"started": 0.0})
            if name == "ended":
                population.append("closed", {"reason": "evaluations"})
    (tmp_path / "killed" / "events.jsonl").open("ab").write(b'{"seq":2,"ki')
    with Population(tmp_path / "held"):
        told = {finding.state: finding.mend for finding in runs(Config(runs_dir=str(tmp_path)))}
    assert "3 in" in next(iter(told))
    assert told["killed: stopped in the middle"].endswith(f"resume=true name=killed runs_dir={tmp_path}")
    held = next(state for state in told if state.startswith("held: under way"))
    assert str(os.getpid()) in held
    assert told[held] == ""
    assert not any("ended" in state for state in told)


@pytest.mark.parametrize(
    ("statement", "mend"),
    [
        ("UPDATE alembic_version SET version_num = '0'", "mlflow db upgrade sqlite:///"),
        ("UPDATE experiments SET lifecycle_stage = 'deleted'", "mlflow experiments restore --experiment-id 7"),
        ("DROP TABLE experiments", "tracking.uri="),
        ("SELECT 1", ""),
    ],
)
def test_a_database_that_mlflow_would_refuse_is_told_with_its_remedy(tmp_path: Path, statement: str, mend: str) -> None:
    with closing(sqlite3.connect(tmp_path / "mlflow.db", isolation_level=None)) as database:
        database.execute("CREATE TABLE alembic_version (version_num)")
        database.execute("INSERT INTO alembic_version VALUES (?)", (newest_schema(),))
        database.execute("CREATE TABLE experiments (experiment_id, name, lifecycle_stage)")
        database.execute("INSERT INTO experiments VALUES (7, 'kevolve', 'active')")
        database.execute("CREATE TABLE runs (experiment_id)")
        database.execute(statement)
    config = Config(tracking=TrackingConfig(uri=f"sqlite:///{tmp_path}/mlflow.db"))
    (finding,) = tracking(config)
    assert mend in finding.mend
    assert bool(mend) == bool(finding.mend)


def test_what_an_earlier_run_has_left_behind_is_named_to_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    raylet = ["/x/raylet", "--node_ip_address=127.0.0.1", f"--object_store_memory={OBJECT_STORE_BYTES}"]
    server = ["/usr/bin/python3", "-I", "/x/kevolve/judge/sandbox/worker.py"]
    there = [(1, 0, ["/sbin/init"]), (50, 1, raylet), (51, 1, server), (52, 50, server), (53, 1, ["vim", "x"])]
    monkeypatch.setattr("kevolve.doctor.ray_cluster.processes", lambda: iter(there))
    (finding,) = leftovers()
    assert finding.mend == "kill 50 51"
    there[0] = (1, 0, ["/usr/bin/python3", "-m", "kevolve.run"])
    (finding,) = leftovers()
    assert finding.mend == "", "in a container, the run itself can be the parent of all"


def test_a_quota_that_would_interrupt_timings_is_seen(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert cpu_quota(tmp_path) is None
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert cpu_quota(tmp_path) == 1.5


def test_the_devices_are_listed_by_key(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert devices.main([]) == 0
    told = capsys.readouterr().out
    assert Cpu().key in told
    assert "cpp" in told
    monkeypatch.setenv("PATH", "/nowhere")
    assert devices.main([]) == 1
    assert "cpu: not here. the cpu device needs g++" in capsys.readouterr().out


def test_wrong_arguments_are_told_as_by_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["devise=cpu"]) == 2
    assert "Did you mean device?" in capsys.readouterr().err
