"""The same search on real Ray: islands in actors, proposers in tasks, and what happens when any of it is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
from search_stubs import LOCAL, StubLease, StubProposer, config, events_of, ids

from kevolve.config import ClusterConfig, Config, PolicyConfig
from kevolve.errors import FaultsStopped, UsageError
from kevolve.events import Event
from kevolve.languages.language import Built
from kevolve.program import Program
from kevolve.propose.proposer import Context, Proposal, Refusal, Request
from kevolve.search.cluster import cluster
from kevolve.search.evolution import evolve
from kevolve.search.island import Memories, RayIslands
from kevolve.search.workers import RAY
from kevolve.verdict import Judgement

HERE = str(Path(__file__).parent)
PLACES = os.pathsep.join([HERE, str(Path(__file__).parents[2])])  # of the stubs, and of the kevolve that is tested
WAIT_SECONDS = 90.0


@pytest.fixture(scope="module")
def shared_ray() -> Iterator[None]:
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = PLACES  # the workers unpickle the stub proposer
    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR", _node_ip_address="127.0.0.1"
    )
    yield
    ray.shutdown()
    os.environ["PYTHONPATH"] = before


def story(wanted: Config) -> list[tuple[str, Any]]:
    return [(event.kind, event.data) for event in events_of(wanted) if event.kind != "opened"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Any]]:
    """What happens in a run of 25 that nothing disturbs."""
    wanted = config(tmp_path_factory.mktemp("expected"), evaluations=25)
    evolve(wanted, leases=[StubLease()], proposer=StubProposer(), workers=LOCAL)
    return story(wanted)


@pytest.mark.usefixtures("shared_ray")
def test_a_run_on_ray_is_the_run_in_one_process_and_a_dead_island_changes_nothing(
    tmp_path: Path, expected: list[tuple[str, Any]]
) -> None:
    made: list[RayIslands] = []
    first: list[Any] = []

    def islands(policy: PolicyConfig, seed: int, remember: Callable[[int], Memories]) -> RayIslands:
        made.append(RayIslands(policy, seed, remember))
        first[:] = made[0].handles
        return made[0]

    class Assassin(StubLease):
        async def measure(self, program: Program, built: Built, *rest: Any, **more: Any) -> Judgement:
            if len(self.judged) in (6, 13):
                ray.kill(made[0].handles[len(self.judged) % 2])
            return await super().measure(program, built, *rest, **more)

    wanted = config(tmp_path, evaluations=25)
    evolve(wanted, leases=[Assassin()], proposer=StubProposer(), workers=replace(RAY, islands=islands))
    assert story(wanted) == expected
    assert [made[0].handles[number] for number in (0, 1)] != first


@pytest.mark.usefixtures("shared_ray")
def test_a_proposer_that_takes_its_process_down_stops_the_run_and_not_the_driver(tmp_path: Path) -> None:
    class Suicidal(StubProposer):
        async def propose(self, request: Request, context: Context) -> Proposal | Refusal:
            os._exit(1)

    with pytest.raises(FaultsStopped, match="process died 3 times"):
        evolve(config(tmp_path), leases=[StubLease()], proposer=Suicidal())
    assert ids(events_of(config(tmp_path)), "judged"), "the starting program's verdict is saved"


@pytest.mark.usefixtures("shared_ray")
def test_a_proposer_that_raises_is_named_with_its_error(tmp_path: Path) -> None:
    class Wrong(StubProposer):
        async def propose(self, request: Request, context: Context) -> Proposal | Refusal:
            raise KeyError("genome")

    with pytest.raises(FaultsStopped, match="the proposer raised KeyError: 'genome'"):
        evolve(config(tmp_path), leases=[StubLease()], proposer=Wrong())


class Driven:
    """A driver in its own process group, with a home of its own."""

    def __init__(self, folder: Path, pause: float) -> None:
        self.wanted = config(folder / "runs", evaluations=25)
        home = folder / "home"
        (home / ".ray").mkdir(parents=True)
        self.token = home / ".ray" / "auth_token"
        self.token.write_text("0" * 64)
        self.token.chmod(0o644)
        self.pause, self.home = pause, home
        self.start(resume=False)

    def start(self, *, resume: bool) -> None:
        self.process = subprocess.Popen(
            [sys.executable, f"{HERE}/drive.py", self.wanted.runs_dir, str(self.pause), str(resume)],
            env={**os.environ, "PYTHONPATH": PLACES, "HOME": str(self.home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, kind: str, count: int) -> None:
        """Until the run has stored so many events of a kind."""
        log = Path(self.wanted.runs_dir) / "trial" / "events.jsonl"
        deadline = time.monotonic() + WAIT_SECONDS
        needle = f'"kind":"{kind}"'
        while not log.exists() or log.read_text().count(needle) < count:
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < deadline, f"no {count} events {kind} within {WAIT_SECONDS} s"
            time.sleep(0.01)

    def children(self) -> dict[str, int]:
        """The driver's own processes, by the names of their programs."""
        listing = subprocess.run(["ps", "-eo", "ppid=,pid=,comm="], capture_output=True, text=True, check=True).stdout
        rows = [line.split(None, 2) for line in listing.splitlines()]
        return {name: int(pid) for parent, pid, name in rows if int(parent) == self.process.pid}

    def end(self) -> tuple[int, str]:
        output, _ = self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode, output

    def resume(self) -> tuple[StubLease, list[Event]]:
        """Go on in this process; also says what had been stored before."""
        before = events_of(self.wanted)
        lease = StubLease()
        evolve(replace(self.wanted, resume=True), leases=[lease], proposer=StubProposer(), workers=LOCAL)
        return lease, before


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[[float], Driven]]:
    started: list[Driven] = []

    def start(pause: float) -> Driven:
        started.append(Driven(tmp_path, pause))
        return started[-1]

    yield start
    for driven in started:
        if driven.process.poll() is None:
            driven.process.kill()
            driven.process.communicate()


def without_ends(events: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(kind, data) for kind, data in events if kind != "closed"]


def test_a_driver_killed_again_and_again_loses_nothing(
    drive: Callable[[float], Driven], expected: list[tuple[str, Any]]
) -> None:
    driven = drive(0.02)
    chance = random.Random()
    for least in (5, 14):
        driven.wait_for("judged", least)
        assert driven.token.stat().st_mode & 0o077 == 0, "whoever reads Ray's token can run code as this user"
        time.sleep(chance.uniform(0, 0.15))  # anywhere between two verdicts
        driven.process.send_signal(signal.SIGKILL)
        assert driven.end()[0] == -signal.SIGKILL
        if least == 5:
            driven.start(resume=True)
    lease, before = driven.resume()
    assert story(driven.wanted) == expected
    assert not set(ids(before, "judged")) & set(lease.judged)


def test_ctrl_c_in_a_terminal_drains_and_saves(
    drive: Callable[[float], Driven], expected: list[tuple[str, Any]]
) -> None:
    driven = drive(0.05)
    driven.wait_for("judged", 7)
    os.killpg(driven.process.pid, signal.SIGINT)  # a terminal sends it to everything, Ray's processes included
    status, output = driven.end()
    assert (status, output.strip()) == (0, "interrupted")
    kinds = [event.kind for event in events_of(driven.wanted)]
    assert kinds[-2:] == ["told", "closed"]
    driven.resume()
    assert without_ends(story(driven.wanted)) == without_ends(expected)


def test_a_dead_raylet_ends_the_run_with_status_and_advice_and_loses_nothing(
    drive: Callable[[float], Driven], expected: list[tuple[str, Any]]
) -> None:
    driven = drive(0.05)
    driven.wait_for("judged", 5)
    os.kill(driven.children()["raylet"], signal.SIGKILL)
    status, output = driven.end()
    assert status == 4, output
    assert "resume=true" in output
    lease, before = driven.resume()
    assert without_ends(story(driven.wanted)) == without_ends(expected)
    assert not set(ids(before, "judged")) & set(lease.judged)


@pytest.mark.usefixtures("shared_ray")
def test_a_cluster_without_a_core_is_said_at_once_instead_of_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [{**node, "Resources": {"GPU": 8}} for node in ray.nodes()]
    monkeypatch.setattr("ray.nodes", lambda: nodes)
    with pytest.raises(UsageError, match="offers a core"):
        cluster(ClusterConfig()).__enter__()


def test_a_cluster_that_is_not_there_is_a_usage_error() -> None:
    if ray.is_initialized():
        ray.shutdown()
    with pytest.raises(UsageError, match=r"cluster\.address=127\.0\.0\.1:1: .*refused"):
        cluster(ClusterConfig(address="127.0.0.1:1")).__enter__()
