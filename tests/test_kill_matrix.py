"""What can be killed or can break under a run, and where it is shown that it says so and loses nothing.

| what                    | what the user sees                                  | test                                 |
| ----------------------- | --------------------------------------------------- | ------------------------------------ |
| the driver              | nothing; resume=true goes on                        | search/test_ray.py, test_replay.py   |
| the driver, by Ctrl-C   | 130, drained and saved                              | test_ray.py, test_end_to_end.py      |
| an island               | nothing: it is made anew from its events            | search/test_ray.py                   |
| a proposer's process    | 4 after three deaths                                | search/test_ray.py                   |
| the judge's worker      | nothing: the call is made again                     | judge/test_ray_lease.py              |
| a program or its server | a verdict on it, or a fault that is tried again     | judge/test_containment.py            |
| the raylet              | 4, and what to type                                 | search/test_ray.py                   |
| the tracking server     | one warning; a later session writes what was missed | here, test_tracking.py               |
| the tracking database   | one warning                                         | here, test_tracking.py               |
| a full disk             | 4, the folder, and what to type                     | here                                 |
| a full scratch folder   | a fault, never a rejected program                   | here                                 |
| a compiler, by the OOM killer | a fault, never a rejected program             | here                                 |
| a read-only folder      | 2 for the run's own, a note or a warning for others | here                                 |
| a clock that is set     | nothing: budgets and durations do not notice        | here                                 |
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from ray.exceptions import RayActorError

from kevolve import run
from kevolve.config import Config, JudgeConfig
from kevolve.errors import FaultsStopped
from kevolve.events import Event, read_events
from kevolve.languages.language import Built
from kevolve.program import Program
from kevolve.quiet import VARIABLES
from kevolve.search import evolution
from kevolve.search.evolution import evolve
from kevolve.tracking import Tracking
from kevolve.verdict import Fault, Judgement
from tests.mlflow_server import MlflowServer
from tests.search.search_stubs import LOCAL, StubLease, StubProposer, config, events_of, ids

HOUR = 3600.0


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a small disk of its own; `mount(name, options)`, and with `remount` in them changes it."""
    mounted: list[Path] = []

    def make(name: str, options: str) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], capture_output=True, text=True)
        if done.returncode and not mounted:
            pytest.skip(f"only root can mount a disk of its own here: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr
        if folder not in mounted:
            mounted.append(folder)
        return folder

    yield make
    os.chdir(tmp_path)
    for folder in mounted:
        subprocess.run(["umount", "--lazy", folder], check=True)


@dataclass
class Told:
    status: int
    out: str
    err: str
    lease: StubLease


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Told]]:
    """The command as typed, with a device that answers at once."""

    def command(*arguments: str) -> Told:
        lease = StubLease()
        stubbed = partial(evolve, leases=[lease], proposer=StubProposer(), workers=LOCAL)
        monkeypatch.setattr(evolution, "evolve", stubbed)
        status = run.main(["operators=[jagged_sum]", "name=trial", "lanes=2", *arguments])
        told = capsys.readouterr()
        assert "Traceback" not in told.out + told.err
        return Told(status, told.out, told.err, lease)

    for name in VARIABLES:
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setenv("KEVOLVE_CACHE", str(tmp_path / "cache"))
    yield command
    logging.captureWarnings(False)


def assert_judged_once(events: list[Event]) -> None:
    judged = Counter(event.data["program"] for event in events if event.kind == "judged" and not event.data["reused"])
    assert judged
    assert set(judged.values()) == {1}


def test_a_full_disk_is_named_with_what_to_type_and_costs_nothing(
    typed: Callable[..., Told], mount: Callable[..., Path]
) -> None:
    disk = mount("disk", "size=400k")
    options = ("tracking=none", f"runs_dir={disk}/runs", "budget.evaluations=150")
    full = typed(*options)
    assert full.status == 4
    assert full.err.startswith(f"kevolve: {disk}/runs/trial/")
    assert "No space left on device" in full.err
    assert f"Make room in {disk}/runs/trial" in full.err
    assert f"python -m kevolve.run resume=true name=trial runs_dir={disk}/runs" in full.err
    before = list(read_events(disk / "runs/trial/events.jsonl"))
    assert_judged_once(before)

    assert typed(*options, "resume=true").status == 4, "still full"
    mount("disk", "remount,size=40m")
    again = typed(*options, "resume=true")
    assert again.status == 0, again.err
    assert not set(ids(before, "judged")) & set(again.lease.judged)
    assert_judged_once(list(read_events(disk / "runs/trial/events.jsonl")))


def test_results_that_a_full_disk_refused_are_written_by_the_next_session(
    typed: Callable[..., Told], tmp_path: Path
) -> None:
    options = ("tracking=none", f"runs_dir={tmp_path}", "budget.evaluations=5")
    assert typed(*options).status == 0
    (record,) = tmp_path.glob("trial/champions/*/*/record.json")
    written = {file: file.read_bytes() for file in (record, tmp_path / "trial/summary.json")}
    for file in written:
        file.unlink()
    again = typed(*options, "resume=true")
    assert (again.status, again.lease.judged) == (0, [])
    assert {file: file.read_bytes() for file in written} == written


def test_a_disk_that_is_full_before_anything_was_judged_says_so(
    typed: Callable[..., Told], mount: Callable[..., Path]
) -> None:
    disk = mount("disk", "size=64k")
    (disk / "film").write_bytes(b"x" * 60 * 1024)
    told = typed("tracking=none", f"runs_dir={disk}")
    assert told.status == 4
    assert "No space left on device" in told.err
    assert "Nothing had been judged" in told.err


def test_a_compiler_without_room_is_the_machines_fault_and_not_the_programs(
    mount: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from kevolve.devices.cpu import Cpu
    from kevolve.judge.prepare import prepare
    from kevolve.judge.sandbox.tiers import find_tier
    from kevolve.paths import seeds_dir
    from kevolve.verdict import Rejected

    monkeypatch.setattr("tempfile.tempdir", str(mount("scratch", "size=40k")))
    source = (seeds_dir() / "jagged_sum" / "plain.cpp").read_text()
    target, tier = Cpu().target, find_tier()
    outcome = prepare(Program("jagged_sum", "cpp", source), target, tier, JudgeConfig())
    assert isinstance(outcome, Fault)
    assert outcome.kind == "toolchain"
    assert "TMPDIR" in outcome.reason
    monkeypatch.setattr("tempfile.tempdir", None)
    claims = "#error No space left on device\n"
    assert isinstance(prepare(Program("jagged_sum", "cpp", claims), target, tier, JudgeConfig()), Rejected)


def test_a_compiler_that_the_kernel_ended_for_want_of_memory_is_the_machines_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kevolve.devices.cpu import Cpu
    from kevolve.judge.prepare import out_of_memory_kills, prepare
    from kevolve.judge.sandbox.tiers import find_tier
    from kevolve.verdict import Rejected

    def outcome() -> object:
        says = Program("jagged_sum", "cpp", '#error Killed\nextern "C" void jagged_sum() {}\n')
        return prepare(says, Cpu().target, find_tier(), JudgeConfig())

    assert out_of_memory_kills() >= 0
    assert isinstance(outcome(), Rejected), "a program can have the compiler say so"
    kills = iter(range(2))
    monkeypatch.setattr("kevolve.judge.prepare.out_of_memory_kills", lambda: next(kills))
    assert isinstance(outcome(), Fault)


def test_a_run_folder_that_cannot_be_written_is_refused_at_once(
    typed: Callable[..., Told], mount: Callable[..., Path], tmp_path: Path
) -> None:
    closed = mount("closed", "ro,size=64k")
    told = typed("tracking=none", f"runs_dir={closed}/runs")
    assert told.status == 2
    assert f"runs_dir={closed}/runs: the run cannot be stored there (Read-only file system" in told.err
    assert "Type runs_dir=FOLDER" in told.err
    (tmp_path / "file").write_text("")
    told = typed("tracking=none", f"runs_dir={tmp_path}/file")
    assert told.status == 2
    assert "Type runs_dir=FOLDER" in told.err


def test_a_read_only_working_directory_and_cache_cost_a_note_each(
    typed: Callable[..., Told], mount: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    closed = mount("closed", "ro,size=64k")
    monkeypatch.chdir(closed)
    monkeypatch.setenv("KEVOLVE_CACHE", str(closed / "cache"))
    told = typed(f"runs_dir={tmp_path}/runs", "budget.evaluations=5")
    assert told.status == 0, told.err
    assert f"{closed}/cache cannot be written" in told.out
    assert "KEVOLVE_CACHE=FOLDER" in told.out
    assert told.out.count("warning: MLflow") == 1
    assert f"{closed} is no folder that can be written" in told.out


class Clock:
    """The wall clock of a machine whose owner sets it, hours to and fro, each time anybody looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jumps = [0.0, 5 * HOUR, -9 * HOUR, 30 * HOUR, -4 * HOUR]
        self.looks = 0
        self.honest = time.time
        monkeypatch.setattr("time.time", self.look)

    def look(self) -> float:
        self.looks += 1
        return self.honest() + self.jumps[self.looks % len(self.jumps)]


def test_setting_the_clock_neither_ends_a_run_nor_keeps_it_going(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clock(monkeypatch)
    begun = time.monotonic()
    wanted = config(tmp_path, evaluations=20, minutes=2.0)
    first = evolve(wanted, leases=[StubLease()], proposer=StubProposer(), workers=LOCAL)
    assert events_of(wanted)[-1].data["reason"] == "evaluations", "the minutes were not up"
    assert 0 < first.seconds < time.monotonic() - begun

    endless = replace(wanted, resume=True, budget=replace(wanted.budget, evaluations=10**6, minutes=0.06))
    second = evolve(endless, leases=[StubLease(pause=0.002)], proposer=StubProposer(), workers=LOCAL)
    assert events_of(wanted)[-1].data["reason"] == "minutes"
    assert 2.0 < second.seconds < 20.0, "0.06 minutes, both sessions together"
    assert time.monotonic() - begun < 40
    assert_judged_once(events_of(wanted))


def test_a_run_goes_on_beside_a_tracking_server_that_comes_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # While it lives, a server that shares this machine with other tests may be slow.
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    monkeypatch.setattr("kevolve.tracking.store.SERVER_SECONDS", 120.0)
    warnings: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    wanted = config(tmp_path / "runs", evaluations=5)
    wanted.tracking.uri = f"http://127.0.0.1:{port}"

    def session(wanted: Config, lease: StubLease) -> None:
        tracking = Tracking(wanted, warnings.append)
        summary = evolve(wanted, [tracking], leases=[lease], proposer=StubProposer(), workers=LOCAL)
        assert summary.stopped == "finished"

    session(wanted, StubLease())  # nobody is there
    assert [f"MLflow at {wanted.tracking.uri} cannot be written" in warning for warning in warnings] == [True]

    with MlflowServer(tmp_path, port) as server:
        more = replace(wanted, resume=True, budget=replace(wanted.budget, evaluations=9))
        session(more, StubLease())
        assert len(warnings) == 1
        client = MlflowClient(wanted.tracking.uri, wanted.tracking.uri)
        (experiment,) = [found for found in client.search_experiments() if found.name == "kevolve"]
        runs = client.search_runs([experiment.experiment_id])
        parent, child = sorted(runs, key=lambda found: found.data.tags["kevolve.operator"])
        summary = Path(client.download_artifacts(parent.info.run_id, "summary.json", str(tmp_path)))
        best = json.loads(summary.read_text())["results"][0]["best"]
        champion = Path(client.download_artifacts(child.info.run_id, "champion/program.cpp", str(tmp_path)))
        assert Program("jagged_sum", "cpp", champion.read_text()).id == best["program"]
        steps = {point.step for point in client.get_metric_history(child.info.run_id, "faults")}
        assert steps == set(range(10)), "the first session's verdicts are there too"

        class Assassin(StubLease):
            async def measure(self, program: Program, built: Built, *rest: Any, **more: bool) -> Judgement:
                if len(self.judged) == 2:
                    server.kill()
                return await super().measure(program, built, *rest, **more)

        more = replace(wanted, resume=True, budget=replace(wanted.budget, evaluations=14))
        begun = time.monotonic()
        session(more, Assassin())
        assert time.monotonic() - begun < 40
    assert len(warnings) == 2
    assert "tracking=none" in warnings[1]
    assert_judged_once(events_of(wanted))


def test_a_database_that_somebody_holds_costs_one_warning_and_seconds(tmp_path: Path) -> None:
    warnings: list[str] = []
    held: list[float] = []
    wanted = config(tmp_path / "runs", evaluations=5)
    wanted.tracking.uri = f"sqlite:///{tmp_path}/mlflow.db"
    tracking = Tracking(wanted, warnings.append)
    with closing(sqlite3.connect(tmp_path / "mlflow.db", isolation_level=None)) as holder:

        class Holding(StubLease):
            async def measure(self, program: Program, built: Built, *rest: Any, **more: bool) -> Judgement:
                if len(self.judged) == 2:
                    tracking.flush()  # it has been open and written
                    held.append(time.monotonic())
                    holder.execute("BEGIN EXCLUSIVE")
                return await super().measure(program, built, *rest, **more)

        summary = evolve(wanted, [tracking], leases=[Holding()], proposer=StubProposer(), workers=LOCAL)
        assert summary.stopped == "finished"
        assert len(warnings) == 1
        assert "locked" in warnings[0]
        assert time.monotonic() - held[0] < 12


def test_ray_that_does_not_start_and_a_device_that_cannot_be_taken_are_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Any:
        raise Exception("The current node timed out during startup.\nlong advice")  # as Ray does

    with pytest.raises(FaultsStopped, match=r"Ray does not start .*timed out during startup\.\).*\n.*kevolve doctor"):
        evolve(config(tmp_path), leases=[StubLease()], proposer=StubProposer(), workers=replace(LOCAL, up=broken))

    def dead(*_: object) -> Any:
        raise RayActorError(
            error_msg="The actor died.\n  many lines\nIsADirectoryError: [Errno 21] Is a directory: 'x'"
        )

    monkeypatch.setattr("kevolve.judge.ray_lease.open_leases", dead)
    with pytest.raises(FaultsStopped, match=r"could not be taken .IsADirectoryError"):
        evolve(config(tmp_path), proposer=StubProposer(), workers=LOCAL)
    assert not (tmp_path / "trial").exists(), "nothing has begun"
