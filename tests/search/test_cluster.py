"""Another machine: three raylets on this one. The driver is where no core is, and the device's node dies half way."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster
from rich.console import Console
from search_stubs import events_of

from kevolve.cluster.nodes import selector
from kevolve.config import ClusterConfig, Config, JudgeConfig
from kevolve.errors import FaultsStopped, UsageError
from kevolve.judge.lease import Survey
from kevolve.judge.ray_lease import RayLease, open_leases
from kevolve.languages.language import Built
from kevolve.operators.registry import load_operator
from kevolve.run import announce
from kevolve.search.cluster import address_of, cluster
from kevolve.search.evolution import evolve
from kevolve.search.opening import starting_programs

ROOT = Path(__file__).parents[2]
SOON_DEAD = {  # a node counts as lost after two seconds and not after fifteen
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 3,
}


@dataclass
class Machines:
    """A cluster: `head` has the driver and no core, `a` and `b` two cores each and labels."""

    cluster: Cluster
    a: Any
    b: Any

    def raylet(self, host: str) -> int:
        """The process of the node that calls itself `host`."""
        node = next(node for node in (self.a, self.b) if node.node_id[:8] in host)
        return int(node.all_processes["raylet"][0].process.pid)

    def kill(self, host: str, worker: int | None = None) -> None:
        """SIGKILL a node's raylet: its workers end with it. `worker` ends at once, like on a machine that is gone."""
        if worker is not None:
            os.kill(worker, signal.SIGSTOP)
        os.kill(self.raylet(host), signal.SIGKILL)
        if worker is not None:
            os.kill(worker, signal.SIGKILL)


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    if ray.is_initialized():
        ray.shutdown()
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = str(ROOT)
    store = {"object_store_memory": 80 * 2**20}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": SOON_DEAD, **store})
    a = made.add_node(num_cpus=2, labels={"pool": "a"}, wait=False, **store)
    b = made.add_node(num_cpus=2, labels={"pool": "b"}, wait=False, **store)
    made.wait_for_nodes()
    with cluster(ClusterConfig(address=made.address)):
        yield Machines(made, a, b)
    made.shutdown()
    os.environ["PYTHONPATH"] = before


def wanted(**changes: Any) -> Config:
    judge = JudgeConfig(max_pairs=6, confirm_pairs=6)
    return Config(operators=["jagged_sum"], name="trial", lanes=1, judge=judge, **changes)


def test_a_label_that_no_node_has_is_an_error_that_lists_the_labels_there_are(machines: Machines) -> None:
    arguments = [f"cluster.address={machines.cluster.address}", "cluster.labels=pool=h200", "tracking=none"]
    refused = subprocess.run(
        [sys.executable, "-m", "kevolve.run", *arguments], capture_output=True, text=True, timeout=60
    )
    assert refused.returncode == 2, refused.stderr
    assert "cluster.labels=pool=h200: no node of the Ray cluster has these labels" in refused.stderr
    assert "pool=a, 2 cores" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_device_that_no_node_has_is_an_error_that_lists_what_each_offers(machines: Machines) -> None:
    config = wanted()
    config.device.name = "tpu"
    with pytest.raises(UsageError) as refused:
        open_leases(config)
    lines = str(refused.value).splitlines()
    assert "no device=tpu" in lines[0]
    assert sum(": cpu-" in line for line in lines) == 2
    assert "Ray may use no core there" in lines[3], "the driver's node comes last, and has none"


def test_a_node_with_another_kevolve_is_named_instead_of_trusted(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kevolve.cluster.discovery.version", lambda: "0.0.9+ffffffff")
    with pytest.raises(UsageError, match="cannot be used: it has another kevolve"):
        open_leases(wanted())


def test_a_run_outlives_the_node_of_its_device_and_stops_with_advice_when_the_last_is_lost(
    machines: Machines, tmp_path: Path
) -> None:
    config = wanted(runs_dir=str(tmp_path))
    config.budget.evaluations = 1
    config.budget.confirmations = 1
    (lease,) = open_leases(config)
    first = str(lease.environment["node"])
    assert lease.device.startswith("cpu-")
    _survey_at_once(lease)
    _kill_while_measuring(lease, machines, when=2)

    assert evolve(config, leases=[lease]).stopped == "finished"

    second = str(lease.environment["node"])
    assert first != second
    judged = [event.data for event in events_of(config) if event.kind == "judged" and not event.data["reused"]]
    assert set(Counter(data["program"] for data in judged).values()) == {1}
    assert {data["judgement"]["verdict"]["verdict"] for data in judged} == {"Scored"}
    nodes = [data["judgement"]["environment"]["node"] for data in judged]
    assert nodes == [first] + [second] * (len(nodes) - 1)
    assert any(event.kind == "confirmed" and event.data["champion"] for event in events_of(config))

    (alone,) = open_leases(config)
    (program,) = starting_programs("jagged_sum", alone)[:1]
    machines.kill(second)
    with pytest.raises(FaultsStopped, match=r"was lost with its device cpu-.*no other node.*ray start"):
        asyncio.run(_judge(alone, program))


def _survey_at_once(lease: RayLease) -> None:
    """As if embedding_bag were the fastest everywhere: a real survey takes a minute and is tested by itself."""
    times = {workload.name: {"embedding_bag": 1.0} for workload in load_operator("jagged_sum").workloads}

    async def survey(operator: str, seed: int) -> Survey:
        return Survey(operator, lease.device, times)

    lease.survey = survey  # type: ignore[method-assign,assignment]


def _kill_while_measuring(lease: RayLease, machines: Machines, when: int) -> None:
    """Kill the lease's node in the middle of its measurement number `when`."""
    measure, calls = lease.measure, Counter[str]()

    async def measured(*arguments: Any, **more: Any) -> Any:
        calls["measure"] += 1
        if calls["measure"] != when:
            return await measure(*arguments, **more)
        judging = asyncio.create_task(measure(*arguments, **more))
        deadline = time.monotonic() + 60
        node = str(lease.environment["node"])
        while (worker := _measuring(machines.raylet(node))) is None:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        machines.kill(node, worker)
        return await judging

    lease.measure = measured  # type: ignore[method-assign,assignment]


def _measuring(raylet: int) -> int | None:
    """The raylet's worker in which a program is measured: Ray renames a worker while a method runs in it."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == raylet and b"ray::DeviceActor.measure" in (process / "cmdline").read_bytes():
                return int(process.name)
        except OSError:
            continue
    return None


async def _judge(lease: RayLease, program: Any) -> None:
    built = await lease.prepare(program)
    assert isinstance(built, Built)
    await lease.measure(program, built, Survey("jagged_sum", lease.device, {}), 1)


def test_labels_are_read_as_ray_takes_them_and_nonsense_is_refused() -> None:
    assert selector("pool=h200, zone=a") == {"pool": "h200", "zone": "a"}
    assert selector(None) == {}
    for nonsense in ("pool", "pool=", "=a", "pool=a,", "pool=a b"):
        with pytest.raises(UsageError, match="is no label"):
            selector(nonsense)


def test_a_ray_job_joins_its_cluster_and_warns_of_a_folder_that_goes_with_the_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "192.0.2.1:6379")
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    announce(wanted(), Console())
    told = capsys.readouterr().out
    assert "joins RAY_ADDRESS=192.0.2.1:6379" in told
    assert "runs_dir=/A/MOUNTED/VOLUME" in told
    assert address_of(ClusterConfig(address="local")) is None
    assert address_of(ClusterConfig(address="192.0.2.9:6379")) == ("192.0.2.9:6379", "cluster.address=192.0.2.9:6379")
