"""What a user loses when a run is killed: nothing, whatever the moment."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from search_stubs import LOCAL, StubLease, StubProposer, config, events_of, ids

from kevolve.config import Config
from kevolve.events import Event
from kevolve.search.evolution import evolve


@pytest.fixture(autouse=True)
def _without_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that it wrote; waiting for the disk hundreds of times would prove no more."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


def run(wanted: Config) -> StubLease:
    lease = StubLease()
    evolve(wanted, leases=[lease], proposer=StubProposer(kinds=3), workers=LOCAL)
    return lease


def story(events: list[Event]) -> list[tuple[str, Any]]:
    """What happened, without when, and without where one session ended and the next began."""
    return [(event.kind, event.data) for event in events if event.kind != "opened"]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A run in which everything happens: refusals, twins, known programs, migrations, two operators, confirmations."""
    wanted = config(tmp_path_factory.mktemp("unbroken"), operators=["jagged_sum", "jagged_softmax"], evaluations=9)
    run(wanted)
    return wanted


def test_the_unbroken_run_is_worth_replaying(unbroken: Config) -> None:
    events = events_of(unbroken)
    kinds = {event.kind for event in events}
    assert len(events) >= 60
    assert kinds >= {"asked", "proposed", "submitted", "judged", "told", "migrated", "confirmed", "closed"}
    assert any(event.data["reused"] for event in events if event.kind == "judged")
    assert any(event.data["retried"] for event in events if event.kind == "proposed")
    assert any(event.data["moves"] for event in events if event.kind == "migrated")


def test_a_run_killed_at_any_event_goes_on_to_the_same_events(unbroken: Config, tmp_path: Path) -> None:
    lines = (Path(unbroken.runs_dir) / "trial" / "events.jsonl").read_bytes().splitlines(keepends=True)
    expected = story(events_of(unbroken))
    for kept in range(1, len(lines)):
        resumed = config(tmp_path / str(kept), operators=unbroken.operators, evaluations=9, resume=True)
        shutil.copytree(Path(unbroken.runs_dir) / "trial", Path(resumed.runs_dir) / "trial")
        (Path(resumed.runs_dir) / "trial" / "events.jsonl").write_bytes(b"".join(lines[:kept]))
        lease = run(resumed)
        assert story(events_of(resumed)) == expected, f"killed after event {kept}"
        before = {event.data["program"] for event in events_of(unbroken)[:kept] if event.kind == "judged"}
        assert not before & set(lease.judged), f"killed after event {kept}, something was judged again"


def test_equal_seeds_make_equal_runs_and_others_do_not(unbroken: Config, tmp_path: Path) -> None:
    same = config(tmp_path / "same", operators=unbroken.operators, evaluations=9)
    other = config(tmp_path / "other", operators=unbroken.operators, evaluations=9, seed=1)
    run(same)
    run(other)
    assert story(events_of(same)) == story(events_of(unbroken))
    assert ids(events_of(other), "judged") != ids(events_of(unbroken), "judged")
