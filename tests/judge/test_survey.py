"""The survey names what is wrong, picks the fastest of the rest, and is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kevolve.judge.arena import Arena
from kevolve.judge.baselines import BaselineFault, BaselineProcess
from kevolve.judge.call import Arenas
from kevolve.judge.draws import Draws
from kevolve.judge.judge import Judge
from kevolve.judge.streams import Streams
from kevolve.judge.survey import Surveyor
from kevolve.judge.survey_cache import SurveyCache
from kevolve.operators.operator import Workload


def surveyor_of(judge: Judge, process: BaselineProcess) -> Surveyor:
    arenas, operator = Arenas(judge.inputs, Arena(1 << 28, read_only=False)), judge.operator("jagged_sum")
    streams = Streams(b"secret", 0)
    return Surveyor(operator, process, arenas, Draws(operator, streams), judge.flush, streams)


@pytest.fixture(scope="module")
def surveyor(judge: Judge) -> Surveyor:
    process = BaselineProcess(judge.device.environment(), "cpu", judge.inputs.fd, judge.inputs.size)
    return surveyor_of(judge, process)


def workload(surveyor: Surveyor, name: str) -> Workload:
    return next(w for w in surveyor.operator.workloads if w.name == name)


def test_a_baseline_that_adds_in_bfloat16_is_dropped_there_and_named(surveyor: Surveyor) -> None:
    times, wrong = surveyor.on(workload(surveyor, "bfloat16"), ["embedding_bag", "segment_reduce", "sparse_csr"])
    assert list(times) == ["embedding_bag"]
    assert wrong["segment_reduce"].startswith("wrong:")
    assert wrong["sparse_csr"].startswith("fails:")


def test_the_fastest_right_baseline_is_the_one_to_beat(surveyor: Surveyor) -> None:
    times, wrong = surveyor.on(workload(surveyor, "small"), ["padded", "embedding_bag"])
    assert not wrong
    assert 0 < times["embedding_bag"] < times["padded"]


def test_a_killed_baseline_process_is_a_fault_and_not_a_time(judge: Judge) -> None:
    process = BaselineProcess(judge.device.environment(), "cpu", judge.inputs.fd, judge.inputs.size)
    process.process.kill()
    made = surveyor_of(judge, process)
    with pytest.raises(BaselineFault):
        made.on(workload(made, "small"), ["embedding_bag"])


def test_a_survey_is_remembered_under_everything_that_could_change_it(
    judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEVOLVE_CACHE", str(tmp_path))
    operator = judge.operator("jagged_sum")
    times: Mapping[str, Mapping[str, float]] = {"main": {"embedding_bag": 400.0, "padded": 5000.0}}
    cache = SurveyCache(judge.device, operator, ["embedding_bag"], "one")
    assert cache.load() is None
    from kevolve.judge.lease import Survey

    cache.save(Survey(operator.name, judge.device.key, times, {}))
    remembered = SurveyCache(judge.device, operator, ["embedding_bag"], "one").load()
    assert remembered is not None
    assert remembered.fastest("main") == "embedding_bag"
    assert SurveyCache(judge.device, operator, ["embedding_bag"], "two").load() is None
    assert SurveyCache(judge.device, operator, ["embedding_bag", "padded"], "one").load() is None
