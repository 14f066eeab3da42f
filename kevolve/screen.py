"""The screen: what a run is doing, live in a terminal and as plain lines anywhere else.

Nothing is drawn by a clock. The live view changes when an event is heard, never while a program is timed: a
refreshing thread beside a kernel on the same cores would be measured with it.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kevolve.config import Config
from kevolve.progress import Progress, SearchProgress
from kevolve.search.listener import Listener
from kevolve.verdict import Fault, Rejected, Scored, from_json

if TYPE_CHECKING:
    from kevolve.events import Event
    from kevolve.summary import Summary

REDRAW_SECONDS = 0.2
WIDTH = 120  # of plain output, where there is no terminal to ask
HISTORY = 6
ENDS = {
    "evaluations": "every program of the budget is judged",
    "minutes": "the minutes of the budget are up",
    "exhausted": "the proposer has run out of new programs",
    "target": "the speedup that was asked for is reached",
    "roofline": "the share of the roofline that was asked for is reached",
    "plateau": "nothing better has come for as long as was asked for",
    "tokens": "the tokens of the budget are spent",
    "cost_usd": "the money of the budget is spent",
    "spent": "the next call of a model does not fit into the budget of tokens or money",
    "interrupted": "interrupted, everything is saved",
    "faults": "the machine kept failing, everything is saved",
}
REMEDIES = {
    "widen": "it drafts more",
    "import": "it gets the best of another island",
    "restart": "it starts again",
}


def console() -> Console:
    """Where a run is shown; without a terminal, lines are wide enough for the tables."""
    shown = Console(highlight=False)
    return shown if shown.is_terminal else Console(highlight=False, width=WIDTH)


def screen(config: Config, console: Console) -> PlainScreen | LiveScreen:
    """The live view if somebody can watch it, plain lines otherwise (no terminal, or CI is set)."""
    is_watched = console.is_terminal and not console.is_dumb_terminal and not os.environ.get("CI")
    return LiveScreen(config, console) if is_watched else PlainScreen(config, console)


class PlainScreen(Listener):
    """At most one line per event that a reader of a log would miss."""

    def __init__(self, config: Config, console: Console):
        self.config = config
        self.console = console
        self.progress = Progress()

    def recalled(self, events: Iterable[Event]) -> None:
        self.progress.recalled(events)

    def heard(self, event: Event) -> None:
        self.progress.heard(event)
        line = describe(event, self.progress, self.config)
        if line:
            self.note(line)

    def note(self, line: str) -> None:
        """Show a line that no event stands for, such as a warning."""
        self.console.print(Text(f"{self.progress.seconds:7.1f} s  {line}"), soft_wrap=True)

    def flush(self) -> None:
        """Lines are shown as they are heard."""

    def closed(self, summary: Summary) -> None:
        """The final table follows."""

    def stop(self) -> None:
        """Nothing to tidy up: lines stay where they are."""


class LiveScreen(Listener):
    """A table of searches and the last few events, redrawn in place."""

    def __init__(self, config: Config, console: Console):
        self.config = config
        self.progress = Progress()
        self.history: deque[str] = deque(maxlen=HISTORY)
        self.live = Live(console=console, auto_refresh=False, transient=True, redirect_stderr=False)
        self.drawn = 0.0

    def recalled(self, events: Iterable[Event]) -> None:
        self.progress.recalled(events)

    def heard(self, event: Event) -> None:
        self.progress.heard(event)
        line = describe(event, self.progress, self.config)
        if line:
            self.history.append(f"{self.progress.seconds:7.1f} s  {line}")
        if time.monotonic() - self.drawn > REDRAW_SECONDS:
            self._draw()

    def note(self, line: str) -> None:
        """Show a line that no event stands for, above the view, where it stays."""
        self.live.console.print(Text(line), soft_wrap=True)

    def flush(self) -> None:
        self._draw()

    def closed(self, summary: Summary) -> None:
        """The final table follows in place of the view."""
        self.stop()

    def stop(self) -> None:
        """Take the view away and give the cursor back, whatever happened."""
        self.live.stop()

    def _draw(self) -> None:
        self.live.start()  # does nothing when it is already on
        self.live.update(picture(self.progress, self.config, self.history), refresh=True)
        self.drawn = time.monotonic()


def describe(event: Event, progress: Progress, config: Config) -> str | None:
    """One line about an event, None if it is not worth one."""
    data = event.data
    if event.kind == "opened":
        what = "the search goes on" if progress.searches else "baselines are compiled and timed first"
        return f"on {', '.join(data['environment']) or 'no device'}; {what}"
    if event.kind == "surveyed":
        dropped = sorted({name for names in data["dropped"].values() for name in names})
        tail = f"; wrong on some workload and left out there: {', '.join(dropped)}" if dropped else ""
        return f"{data['operator']}: timed the baselines of {len(data['times_us'])} workloads{tail}"
    if event.kind == "proposed":
        return _earlier(data["operator"], data["program"]["origin"].get("earlier"))
    if event.kind == "judged":
        return _judged(event, progress, config)
    if event.kind == "migrated":
        return f"{data['operator']}: {len(data['moves'])} programs moved between islands"
    if event.kind == "stirred":
        found = f"{data['operator']}: island {data['island']} has found nothing better in {data['verdicts']} programs"
        return f"{found}: {REMEDIES[data['remedy']]}"
    if event.kind == "confirmed":
        leads = ": it leads" if data["champion"] else ""
        return f"{data['operator']}: {data['program'][:8]} {data['reason']}{leads}"
    if event.kind == "closed":
        return f"the search ends: {ENDS.get(data['reason'], data['reason'])}"
    return None


def _earlier(operator: str, told: Mapping[str, Any] | None) -> str | None:
    """That a search starts from what an earlier run found."""
    if told is None:
        return None
    what = "the champion" if told["operator"] == operator else f"what made {told['operator']} fast"
    return f"{operator}: starts from {what} of run {told['run']} too ({told['speedup']:.2f}x there), judged afresh"


def _judged(event: Event, progress: Progress, config: Config) -> str | None:
    data, search = event.data, progress.search(event.data)
    if data["reused"]:
        return None
    match from_json(data["judgement"]["verdict"]):
        case Scored(fitness=fitness):
            outcome = f"{fitness.speedup:.2f}x (worst workload {fitness.worst:.2f}x)"
        case Rejected(stage=stage, reason=reason):
            outcome = f"rejected by {stage}: {_short(reason)}"
        case Fault(kind=kind, reason=reason):
            outcome = f"fault ({kind}): {_short(reason)}"
    best = f"  best {search.best.speedup:.2f}x" if search.best else ""
    return f"{data['operator']} {search.judged}/{config.budget.evaluations}  {outcome}{best}"


def picture(progress: Progress, config: Config, history: Iterable[str]) -> Group:
    """The whole live view."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("operator", "device", "judged", "scored", "rejected", "best", "worst", "device busy"):
        table.add_column(heading, justify="left" if heading in ("operator", "device", "rejected") else "right")
    for search in progress.searches.values():
        table.add_row(*_row(search, progress, config))
    spent = f"{progress.tokens} tokens, {progress.cost_usd:.2f} USD, " if progress.tokens else ""
    left = Text(f"{spent}{clock(seconds_left(progress, config))} left, Ctrl-C stops and saves", style="dim")
    return Group(table, left, *(Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in history))


def _row(search: SearchProgress, progress: Progress, config: Config) -> list[str]:
    share = search.scored_share
    rejected = [f"{stage} {count}" for stage, count in search.rejected.items()]
    if search.faults:
        rejected.append(f"faults {search.faults}")
    return [
        search.operator,
        search.device,
        f"{search.judged}/{config.budget.evaluations}",
        f"{search.scored} ({share:.0%})" if share is not None else "0",
        ", ".join(rejected) or "none",
        f"{search.best.speedup:.2f}x" if search.best else "-",
        f"{search.best.worst:.2f}x" if search.best else "-",
        f"{progress.busy_share(search.device):.0%}",
    ]


def seconds_left(progress: Progress, config: Config) -> float:
    """Until the minutes run out, or the evaluations at the rate so far, whichever comes first."""
    by_clock = config.budget.minutes * 60 - progress.earlier_seconds - progress.seconds
    judged_now = progress.judged - progress.earlier_judged
    wanted = config.budget.evaluations * max(1, len(progress.searches)) - progress.judged
    by_count = progress.seconds / judged_now * wanted if judged_now else by_clock
    return max(0.0, min(by_clock, by_count))


def clock(seconds: float) -> str:
    """`4:05` for 245 seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def percent(fraction: float) -> str:
    """`22%`, `0.6%`, `<0.1%`: what is little is not shown as nothing, nor as one."""
    if fraction == 0 or fraction >= 0.01:
        return f"{fraction:.0%}"
    return f"{fraction:.1%}" if fraction >= 0.001 else "<0.1%"


def _short(reason: str) -> str:
    """The first line of a reason, which may come from a compiler and run on."""
    line = (reason.strip().splitlines() or [""])[0]
    return line if len(line) <= 90 else line[:87] + "..."
