"""A champion of several programs: nobody gets an answer later than from what they have, if sizes can tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kevolve.champions.champion import Champion, kept_champions
from kevolve.champions.dispatch import Leaf, Point, Split, choice, learn, losses
from kevolve.champions.rivals import points, rivals_of
from kevolve.export.package import measurements
from kevolve.operators.registry import load_operator

KEPT = Path(__file__).parents[1] / "populations" / "champions"


def point(rows: int, kernel: float, *, other: float = 0.5, high: int | None = None, weight: float = 1.0) -> Point:
    sizes = {"rows": (rows, rows if high is None else high), "dim": (64, 64)}
    return Point(f"{rows} rows", weight, sizes, {"kernel": kernel, "other": other, "library": 1.0})


def test_the_champion_alone_answers_where_it_loses_nowhere() -> None:
    assert learn([point(8, 1.2, other=1.22), point(99, 0.975)], "kernel") == Leaf("kernel"), "3 % are noise"


def test_a_workload_on_which_the_champion_loses_goes_to_what_is_fastest_there() -> None:
    timed = [point(8, 2.0), point(64, 1.8), point(1000, 0.8), point(4000, 0.7, other=1.3)]
    rule = learn(timed, "kernel")
    assert losses(rule, timed) == []
    assert [choice(rule, one) for one in timed] == ["kernel", "kernel", "library", "other"]
    assert isinstance(rule, Split)
    assert 64 < rule.threshold <= 1000


def test_no_threshold_lies_within_the_sizes_that_a_workload_draws() -> None:
    timed = [point(10, 2.0, high=500, weight=9.0), point(400, 0.5, high=900)]
    rule = learn(timed, "kernel")
    assert rule == Leaf("library"), "nothing tells them apart for certain, and nobody may be slower"


def test_an_option_answers_only_where_it_was_measured() -> None:
    fast = Point("new", 1.0, {"rows": (5, 5), "dim": (64, 64)}, {"kernel": 0.6, "library": 1.0})
    timed = [fast, point(70, 0.8, other=1.4)]
    assert [choice(learn(timed, "kernel"), one) for one in timed] == ["library", "other"]


@pytest.mark.parametrize("champion", list(kept_champions(KEPT)), ids=lambda champion: champion.operator)
def test_no_champion_that_is_kept_loses_anywhere_with_its_baselines(champion: Champion, tmp_path: Path) -> None:
    if champion.device.startswith("nvidia"):
        pytest.skip("its workloads are drawn as large as they are for a GPU")
    operator, measured = load_operator(champion.operator), measurements(champion)
    options = rivals_of(champion, measured, tmp_path).baselines
    timed = points(operator, measured, options, champion.program)
    rule = learn(timed, champion.program)
    assert losses(rule, timed) == []
    assert choice(rule, timed[0]) == champion.program, "the first is what most of the traffic is"


def test_other_programs_of_the_run_and_its_survey_are_options(tmp_path: Path) -> None:
    from kevolve.search.evolution import evolve
    from tests.search.search_stubs import LOCAL, StubLease, StubProposer, config

    evolve(config(tmp_path, evaluations=10), leases=[StubLease()], proposer=StubProposer(), workers=LOCAL)
    from kevolve.champions.champion import run_champions

    (champion,) = run_champions(tmp_path)
    measured = measurements(champion)
    rivals = rivals_of(champion, measured, tmp_path)
    confirmed = [
        event["data"]["program"]
        for event in map(json.loads, (tmp_path / "trial/events.jsonl").read_text().splitlines())
        if event["kind"] == "confirmed"
    ]
    assert set(rivals.programs) == set(confirmed) - {champion.program}
    for name, (program, speedups) in rivals.programs.items():
        assert program.id == name
        assert set(speedups) == {measurement.workload for measurement in measured}
    assert any(speedups[measured[0].workload] == 1.0 for speedups in rivals.baselines.values())
