"""On recorded timings a run is an experiment: the same again, whatever happens to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from landscape_runs import POLICIES, TABLES, log, played, story, timeless, wanted
from rich.console import Console

from kevolve.configuration import load_config
from kevolve.errors import UsageError
from kevolve.events import read_events
from kevolve.judge.landscape import Landscape, landscape_names
from kevolve.propose.parameters import points
from kevolve.run import main
from kevolve.screen import PlainScreen
from kevolve.search.evolution import evolve


@pytest.fixture(autouse=True)
def _without_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that it wrote; waiting for the disk hundreds of times would prove no more."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_log_byte_for_byte_and_another_does_not(tmp_path: Path, policy: str) -> None:
    runs = [wanted(tmp_path / str(n), policy, f"seed={seed}") for n, seed in enumerate((3, 3, 4))]
    for run in runs:
        played(run)
    one, same, other = (timeless(log(run).read_bytes().splitlines()) for run in runs)
    assert one == same
    assert one != other


@pytest.mark.parametrize(("policy", "stride"), [("islands", 1), ("mcts", 4), ("greedy", 9), ("sequential", 9)])
def test_a_run_killed_at_any_event_goes_on_as_the_unbroken_one(tmp_path: Path, policy: str, stride: int) -> None:
    unbroken = wanted(tmp_path / "unbroken", policy)
    played(unbroken)
    lines = log(unbroken).read_bytes().splitlines(keepends=True)
    blobs = log(unbroken).parent / "blobs"
    expected = story(lines)
    assert len(lines) >= 60
    if policy == "islands":
        assert {event.kind for event in read_events(log(unbroken))} >= {"migrated", "stirred", "confirmed"}
    for kept in range(1, len(lines), stride):
        run = replace(unbroken, runs_dir=str(tmp_path / str(kept)), resume=True)
        log(run).parent.mkdir(parents=True)
        (log(run).parent / "blobs").symlink_to(blobs)
        log(run).write_bytes(b"".join(lines[:kept]))
        played(run)
        assert story(log(run).read_bytes().splitlines()) == expected, f"killed after event {kept}"


def test_every_table_is_complete_enough_to_play_on_and_says_how_it_was_made() -> None:
    tables = {name: Landscape.read(TABLES / f"{name}.parquet") for name in landscape_names(str(TABLES))}
    assert len(tables) >= 5
    for name, table in tables.items():
        assert len(table.rows) >= 500, name
        assert table.template == (TABLES / f"{name}.cpp").read_text(), f"{name}: the table is of another template"
        assert table.row(table.starting_program()) is not None, f"{name}: the search cannot begin"
        assert set(table.rows) <= {tuple(point.values()) for point in points(table.template)}


def test_a_landscape_is_played_from_the_command_line_without_ray(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kevolve.search.cluster.cluster", None)  # whoever starts Ray fails
    arguments = ["judge=landscape", f"judge.landscape={TABLES}", "proposer=grid", "operators=[deceptive]", "seed=1"]
    status = main([*arguments, "budget.evaluations=60", "tracking=none", f"runs_dir={tmp_path}", "name=trial"])
    shown = capsys.readouterr().out
    assert status == 0
    assert "every program of the budget is judged" in shown
    assert "recorded" in (tmp_path / "trial" / "summary.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["operators=[jagged_sum]"], "a landscape knows only the points of its grid. Type proposer=grid"),
        (["operators=[decptive]", "proposer=grid"], "no operator is called decptive. Did you mean deceptive?"),
        (["operators=[deceptive]", "proposer=grid", "judge.landscape=nowhere"], "no operator is called deceptive"),
    ],
)
def test_what_cannot_be_played_is_told_with_what_to_type(arguments: list[str], told: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_config(["judge=landscape", f"judge.landscape={TABLES}", *arguments])
    assert told in str(refused.value)


def test_a_file_that_is_no_landscape_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(UsageError, match=r"odd\.parquet is no recorded landscape"):
        Landscape.read(tmp_path / "odd.parquet")


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("budget.target=1.5", "target"),
        ("budget.roofline=0.4", "roofline"),
        ("budget.plateau=5", "plateau"),
        ("budget.evaluations=7", "evaluations"),
    ],
)
def test_a_search_stops_when_it_has_what_was_asked_for_and_a_higher_bar_lets_it_go_on(
    tmp_path: Path, rule: str, reason: str
) -> None:
    run = wanted(tmp_path, "random", "budget.evaluations=200", rule)
    played(run)
    events = list(read_events(log(run)))
    assert events[-1].data["reason"] == reason
    best = max(e.data["judgement"]["verdict"]["fitness"]["speedup"] for e in events if e.kind == "judged")
    assert reason != "target" or best >= 1.5
    key = rule.partition("=")[0].partition(".")[2]
    more = replace(run, resume=True, budget=replace(run.budget, **{key: getattr(run.budget, key) * 2}))
    assert evolve(replace(run, resume=True)).judged == max(
        sum(e.kind == "judged" and not e.data["reused"] for e in events), 1
    ), "nothing more to do"
    evolve(more)
    assert len(list(read_events(log(run)))) > len(events)


def test_an_island_that_finds_nothing_better_is_stirred_and_the_screen_says_so(tmp_path: Path) -> None:
    roomy = ["policy.islands=2", "policy.population=8", "policy.drafts=0"]
    run = wanted(tmp_path, "islands", "budget.evaluations=60", *roomy)
    console = Console(record=True, width=160, file=(tmp_path / "shown").open("w"))
    evolve(run, [PlainScreen(run, console)])
    shown = console.export_text()
    events = list(read_events(log(run)))
    stirred = [event.data for event in events if event.kind == "stirred"]
    assert [data["remedy"] for data in stirred if data["island"] == 0][:3] == ["widen", "import", "restart"]
    guests = [data for data in stirred if data["remedy"] == "import"]
    assert guests
    assert all(data["guest"]["program"] for data in guests)
    assert "has found nothing better in 3 programs: it drafts more" in shown
    assert "it gets the best of another island" in shown
    assert "it starts again" in shown
