"""What a user sees while a run goes on, in a terminal and in a log."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from kevolve.config import Config
from kevolve.events import Event
from kevolve.progress import Progress
from kevolve.screen import LiveScreen, PlainScreen, clock, screen, seconds_left
from kevolve.verdict import Rejected
from tests.run_story import WINNER, Story, scored


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(operators=["jagged_sum"], name="story", runs_dir=str(tmp_path))


@pytest.fixture
def story(config: Config) -> Story:
    return Story(config)


def plain() -> Console:
    return Console(file=io.StringIO(), width=120)


def terminal() -> Console:
    return Console(file=io.StringIO(), width=120, height=40, force_terminal=True)


def text(console: Console) -> str:
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def hear(view: PlainScreen | LiveScreen, events: Sequence[Event]) -> None:
    for event in events:
        view.heard(event)


def test_a_log_gets_plain_lines_even_from_a_terminal_in_ci(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert isinstance(screen(config, plain()), PlainScreen)
    assert isinstance(screen(config, terminal()), LiveScreen)
    monkeypatch.setenv("CI", "true")
    assert isinstance(screen(config, terminal()), PlainScreen)


def test_each_judged_program_is_one_line(config: Config, story: Story) -> None:
    console = plain()
    hear(PlainScreen(config, console), list(story.search()))
    lines = text(console).splitlines()
    assert len(lines) == 6
    assert "on cpu-test; baselines are compiled and timed first" in lines[0]
    assert "nested" in lines[1]
    assert "jagged_sum 1/60  0.50x" in lines[2]
    assert "rejected by build: expected ';' before '}' token  best 0.50x" in lines[3]
    assert "jagged_sum 3/60  2.00x (worst workload 2.00x)  best 2.00x" in lines[4]
    assert "fault (timeout)" in lines[5]


def test_a_reason_full_of_markup_and_lines_is_shown_as_it_is_and_short(config: Config, story: Story) -> None:
    console = plain()
    view = PlainScreen(config, console)
    hear(view, list(story.search()))
    reason = "[/red] undefined [bold]symbol\nand ten more lines\n" + "x" * 500
    view.heard(story.judged(WINNER, Rejected("build", reason), 5))
    last = text(console).splitlines()[-1]
    assert "[/red] undefined [bold]symbol" in last
    assert "ten more" not in last


def test_a_reused_verdict_is_no_news(config: Config, story: Story) -> None:
    console = plain()
    view = PlainScreen(config, console)
    hear(view, list(story.search()))
    before = text(console)
    view.heard(story.judged(WINNER, scored(2.0), 3, reused=True))
    assert text(console) == before
    assert view.progress.search({"operator": "jagged_sum", "device": "cpu-test"}).reused == 1


def test_the_live_view_shows_every_search_and_leaves_the_terminal_as_it_was(config: Config, story: Story) -> None:
    console = terminal()
    view = LiveScreen(config, console)
    hear(view, list(story.search()))
    view.flush()
    view.note("a warning")
    view.closed(story.summary())
    told = text(console)
    for part in ("4/60", "2 (67%)", "build 1", "2.00x", "device busy", "left, Ctrl-C", "a warning"):
        assert part in told
    assert told.rindex("\x1b[?25h") > told.rindex("\x1b[?25l"), "the cursor is still hidden"


def test_nothing_is_drawn_between_events(config: Config, story: Story) -> None:
    view = LiveScreen(config, terminal())
    hear(view, list(story.search()))
    view.flush()
    assert view.live.is_started
    assert view.live._refresh_thread is None
    view.stop()


def test_a_resumed_run_goes_on_counting(config: Config, story: Story) -> None:
    past = list(story.search())
    progress = Progress()
    progress.recalled(past)
    search = progress.search({"operator": "jagged_sum", "device": "cpu-test"})
    assert (search.judged, search.scored, progress.earlier_judged) == (4, 2, 4)
    assert progress.seconds == 0.0
    again = Event(99, past[-1].time + 3600, "opened", {}, 1.0)
    later = Event(100, again.time - 3600, "told", {}, 10.0)  # somebody has set the clock
    progress.heard(again)
    progress.heard(later)
    assert progress.seconds == pytest.approx(10)
    assert progress.earlier_seconds == pytest.approx(past[-1].elapsed)


def test_the_time_left_is_that_of_what_ends_first(config: Config) -> None:
    progress = Progress(seconds=60.0)
    assert seconds_left(progress, config) == pytest.approx(8 * 60)
    progress.search({"operator": "jagged_sum", "device": "cpu"}).judged = 30
    assert seconds_left(progress, config) == pytest.approx(60)
    assert clock(245) == "4:05"
