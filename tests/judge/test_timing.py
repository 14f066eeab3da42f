"""Speedups are ratios with intervals that mean what they say."""

from __future__ import annotations

import random

import pytest

from kevolve.devices.device import Peaks
from kevolve.intervals import FEWEST_TO_RESAMPLE, interval_of_mean, interval_of_median
from kevolve.judge.correctness import Rejection
from kevolve.judge.judge import Judge
from kevolve.judge.lease import Survey
from kevolve.judge.timing import Disturbed, Trial
from kevolve.languages.language import Built
from kevolve.operators.operator import Workload
from kevolve.program import Program
from kevolve.verdict import Judgement, Scored


def test_the_interval_covers_the_true_median_as_often_as_it_says() -> None:
    generator = random.Random(5)
    for count in (6, 9, 15):
        covered = 0
        for _ in range(2000):
            low, high = interval_of_median([generator.lognormvariate(0, 1) for _ in range(count)])
            covered += low <= 1.0 <= high
        assert covered / 2000 > 0.94


def test_the_interval_of_several_workloads_covers_the_true_mean_as_often_as_it_says() -> None:
    generator = random.Random(7)
    for count in (FEWEST_TO_RESAMPLE, 20, 40):
        covered = 0
        for _ in range(400):
            groups = [[generator.lognormvariate(0, 0.1) for _ in range(count)] for _ in range(5)]
            low, high = interval_of_mean(groups, [2, 1, 1, 1, 1])
            covered += low <= 1.0 <= high
        assert covered / 400 > 0.93


def test_the_interval_narrows_with_more_values() -> None:
    generator = random.Random(1)
    values = [generator.gauss(1.0, 0.1) for _ in range(60)]
    few, many = interval_of_median(values[:8]), interval_of_median(values)
    assert many[1] - many[0] < few[1] - few[0]


def test_a_scored_program_has_been_timed_on_every_search_workload_and_no_other(measured: Judgement) -> None:
    assert isinstance(measured.verdict, Scored)
    assert {m.role for m in measured.verdict.measurements} == {"search"}
    for measurement in measured.verdict.measurements:
        low, high = measurement.interval
        assert low <= measurement.speedup <= high
        assert 0 < measurement.roofline < 1.5


def test_a_judgement_says_how_it_was_made(measured: Judgement) -> None:
    assert measured.sandbox in ("bwrap", "landlock", "process")
    assert measured.environment["OMP_WAIT_POLICY"] == "PASSIVE"
    assert len(measured.artefact) == 64
    assert measured.key.device.startswith("cpu-")


def test_one_thread_is_diagnosed_as_idle_cores(measured: Judgement) -> None:
    assert isinstance(measured.verdict, Scored)
    assert "Parallelism bounds it" in measured.verdict.profile["diagnosis"]


def test_peaks_that_were_measured_on_a_busy_machine_make_no_program_impossible(
    judge: Judge, survey: Survey, plain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "peaks", Peaks(1e6, 1e6, 1e6, 1e6))
    program = Program("jagged_sum", "cpp", plain)
    built = judge.prepare(program)
    assert isinstance(built, Built)
    assert isinstance(judge.measure(program, built, survey, seed=5).verdict, Scored)
    assert judge.peaks.cache_read_bytes_per_s > 1e8


def clocks(own: list[float], theirs: list[float]) -> Trial:
    """As if pairs had been taken in which the clocks of program and baseline covered these shares of the windows."""
    return Trial(Workload("main", "search", {}), "eager", 3, own_clock=own, their_clock=theirs)


def test_a_clock_that_never_agrees_is_the_programs_doing_only_where_the_baselines_does_agree() -> None:
    clocks([0.3, 0.9, 0.4], [1.0, 1.0, 1.0]).reject_if_clocks_disagree()
    clocks([0.8], [0.2]).reject_if_clocks_disagree()
    with pytest.raises(Rejection, match="two clocks disagree on main"):
        clocks([0.3, 0.5, 0.4], [0.3, 0.98, 0.4]).reject_if_clocks_disagree()
    with pytest.raises(Disturbed, match="other work"):
        clocks([0.3, 0.5, 0.4], [0.3, 0.6, 0.4]).reject_if_clocks_disagree()
    with pytest.raises(Rejection):  # nobody's load makes a call longer than the window that it lies in
        clocks([1.4], [0.3]).reject_if_clocks_disagree()
