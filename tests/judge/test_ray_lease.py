"""The real lease on real Ray: a killed judge worker costs some seconds, and no verdict."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kevolve.config import Config
from kevolve.errors import FaultsStopped, UsageError
from kevolve.judge import ray_lease
from kevolve.judge.lease import Survey
from kevolve.judge.ray_lease import RayLease, chosen_languages, described, open_leases
from kevolve.judge.sandbox.worker import descendants
from kevolve.languages.language import Built
from kevolve.program import Program
from kevolve.search.cluster import cluster
from kevolve.verdict import Rejected, Scored
from tests.judge.programs import program


@pytest.fixture(scope="module")
def lease() -> Iterator[RayLease]:
    config = Config(operators=["jagged_sum"])
    config.judge.max_pairs = 6
    with cluster(config.cluster):
        (opened,) = open_leases(config)
        yield opened
        asyncio.run(opened.close())


@pytest.fixture(scope="module")
def survey(lease: RayLease) -> Survey:
    names = ("main", "small", "skewed", "bfloat16", "narrow")
    return Survey("jagged_sum", lease.device, {name: {"embedding_bag": 1.0} for name in names})


def test_a_search_may_keep_to_some_of_a_devices_languages() -> None:
    both = SimpleNamespace(device="nvidia-h200", languages=("triton", "cuda"))
    assert chosen_languages(both, []) == ("triton", "cuda")
    assert chosen_languages(both, ["cuda", "cpp"]) == ("cuda",)
    with pytest.raises(UsageError, match="nvidia-h200 takes triton, cuda"):
        chosen_languages(both, ["cpp"])


def test_a_survey_says_what_its_workloads_are_on_that_device() -> None:
    survey = Survey("jagged_sum", "any", {"small": {"embedding_bag": 1.0}})
    facts = {
        "dtype": "float32",
        "index_dtype": "int32",
        "lengths": "uniform",
        "values": "normal",
        "layout": "contiguous",
    }
    sizes = {"batch": 128, "max_length": 64, "dim": 128}
    assert described(survey, "cpu").workloads == {"small": {"sizes": sizes, **facts}}
    assert described(survey, "cuda").workloads != described(survey, "cpu").workloads


def built(lease: RayLease, source: str) -> tuple[Program, Built]:
    made = Program("jagged_sum", "cpp", source)
    outcome = asyncio.run(lease.prepare(made))
    assert isinstance(outcome, Built), outcome
    return made, outcome


def measure(lease: RayLease, survey: Survey, source: str) -> object:
    made, binaries = built(lease, source)
    return asyncio.run(lease.measure(made, binaries, survey, seed=1)).verdict


def test_a_right_program_is_scored_and_a_refused_one_hears_why(lease: RayLease, survey: Survey, plain: str) -> None:
    assert isinstance(measure(lease, survey, plain), Scored)
    refused = asyncio.run(lease.prepare(Program("jagged_sum", "cpp", "int x;\n")))
    assert isinstance(refused, Rejected)


def test_a_killed_judge_worker_loses_no_verdict_and_leaves_nothing_running(
    lease: RayLease, survey: Survey, plain: str
) -> None:
    assert isinstance(measure(lease, survey, plain), Scored)  # its processes are up
    made, binaries = built(lease, program("    for (volatile int64_t i = 0;; i = i + 1) {}\n"))

    async def judge_while_the_worker_is_killed() -> object:
        judging = asyncio.create_task(lease.measure(made, binaries, survey, seed=1))
        while (worker := _device_actor()) is None or not _is_busy(worker):
            await asyncio.sleep(0.02)
        below = descendants(worker)
        assert below, "the fork server and the baseline process are the actor's children"
        os.kill(worker, signal.SIGKILL)
        verdict = (await judging).verdict
        deadline = time.monotonic() + 10
        while any(map(_is_alive, below)) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        assert not [pid for pid in below if _is_alive(pid)]
        return verdict

    verdict = asyncio.run(judge_while_the_worker_is_killed())
    assert isinstance(verdict, Rejected), "the worker that took its place has judged the program"
    assert "did not finish" in verdict.reason
    assert isinstance(measure(lease, survey, plain), Scored)


def test_a_device_whose_judge_cannot_be_believed_is_not_taken(lease: RayLease, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unfit:
        def __init__(self, *about: object) -> None:
            pass

        def describe(self, operators: list[str]) -> None:
            pass

        def self_test(self) -> str:
            return "the judge cannot be believed on this machine"

    monkeypatch.setattr(ray_lease, "DeviceActor", Unfit)
    with pytest.raises(FaultsStopped, match="cannot be believed"):
        open_leases(lease.config)
    assert lease.environment["self_test"] == "passed"


def _device_actor() -> int | None:
    for pid in descendants(os.getpid()):
        try:
            if b"ray::DeviceActor" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        except OSError:
            continue
    return None


def _is_busy(worker: int) -> bool:
    """Is a program running below it (Ray renames the process while a method runs)?"""
    return b"DeviceActor.measure" in Path(f"/proc/{worker}/cmdline").read_bytes()


def _is_alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}/exe")
