"""The review in a terminal: what won, what to doubt, how it was found, what it took."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kevolve.report.findings.finding import Finding
from kevolve.report.findings.review import USES, Review, commands, usage
from kevolve.report.page.show import between, dollars, micro, share, times
from kevolve.screen import ENDS, clock

COLOURS = {"faster": "green", "unsure": "yellow", "slower": "red", "unconfirmed": "yellow", "nothing": "dim"}
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # a compiler's words may hold what moves a terminal


def show(review: Review, console: Console) -> None:
    """Print the whole review."""
    spent = review.spent
    devices = ", ".join(review.environment)
    told = f"on {devices}, begun {review.started}: {ENDS.get(review.ended, 'not ended')}"
    console.print(say(review.name, "bold"), say(told, "dim"), soft_wrap=True)
    console.print(overview(review.findings))
    for sentence in review.told:
        console.print(say(f"  {sentence}"), soft_wrap=True)
    _doubts(console, review.doubts)
    for finding in review.findings:
        _search(review, finding, console)
    console.print()
    uses = ", ".join(f"{USES[use]} {clock(seconds)}" for use, seconds in spent.uses.items())
    console.print(say(f"spent: {clock(spent.seconds)} min, of it {uses}, the rest {clock(spent.rest)}"), soft_wrap=True)
    counts = (
        f"{spent.judged} programs judged, {spent.scored} scored, {spent.reused} verdicts reused, {spent.faults} faults"
    )
    console.print(say(f"{counts}, {spent.tokens} tokens, {dollars(spent.cost_usd)}"), soft_wrap=True)


def overview(findings: Iterable[Finding]) -> Table:
    """A row for each search."""
    found = list(findings)
    places = ["operator"] if len({f.device for f in found}) == 1 else ["operator", "device"]
    table = table_of(
        *places,
        "speedup>",
        "95 % interval",
        "worst>",
        "unseen>",
        "worst unseen>",
        "roofline>",
        "slower on",
        "believe it?",
    )
    for f in found:
        numbers = (times(f.speedup), between(f.interval), times(f.worst), times(f.holdout), times(f.worst_holdout))
        place = [say(f.operator), say(f.device)][: len(places)]
        table.add_row(*place, *numbers, share(f.roofline), say(f.slower_told), say(f.claim, COLOURS[f.state]))
    return table


def table_of(*headings: str) -> Table:
    """A table without lines; a heading that ends in `>` is over numbers."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in headings:
        is_number = heading.endswith(">")
        table.add_column(
            heading.rstrip(">"), justify="right" if is_number else "left", overflow="fold", no_wrap=is_number
        )
    return table


def say(text: str, style: str = "") -> Text:
    """Text from anywhere, harmless to a terminal."""
    return Text(CONTROLS.sub("?", text), style=style)


def _search(review: Review, f: Finding, console: Console) -> None:
    console.print()
    console.print(say(f"{f.operator} on {f.device}", "bold"), say(f.claim, COLOURS[f.state]))
    if f.program:
        what = f"{times(f.speedup)} ({between(f.interval)}) over the fastest baseline; {f.plain_told}"
        console.print(say(f"{what}; {f.language} program {f.program}, {f.written}"), soft_wrap=True)
        if f.by_dtype:
            told = ", ".join(f"{dtype} {times(speedup)}" for dtype, speedup in f.by_dtype.items())
            console.print(say(f"  by dtype: {told}"), soft_wrap=True)
        if f.where_none_is_wrong:
            where = f"  {times(f.where_none_is_wrong)} on the search workloads where all baselines are right"
            console.print(say(f"{where}, so not on {', '.join(f.wrong_on)}"), soft_wrap=True)
        console.print(_workloads(f))
    _doubts(console, f.doubts)
    for number, s in enumerate(f.steps):
        gain = f" {(s.gain - 1) * 100:+.0f} %" if s.gain else ""
        console.print(
            say(f"  step {number}  {s.id[:8]} {times(s.speedup)}{gain}  {s.proposer} {s.why}"), soft_wrap=True
        )
    for r in f.rejects[:5]:
        console.print(say(f"  rejected {r.count:4} by {r.stage}: {r.reason}"), soft_wrap=True)
    for c in f.candidates:
        again = f"{times(c.confirmed)} ({between(c.interval)}) on fresh data, " if c.confirmed else ""
        console.print(say(f"  {c.id[:8]} {times(c.found)} at first, {again}{c.outcome}"), soft_wrap=True)
    for purpose, command in commands(review, f):
        console.print(say(f"  {purpose}: {command}", "dim"), soft_wrap=True)
    for line in usage(f).splitlines():
        console.print(say(f"    {line}", "dim"), soft_wrap=True)


def _workloads(f: Finding) -> Table:
    table = table_of(
        "  workload",
        "role",
        "fastest baseline",
        "baseline us>",
        "program us>",
        "speedup>",
        "95 % interval",
        "roofline>",
    )
    for w in f.workloads:
        timed = (micro(w.baseline_us), micro(w.program_us), times(w.speedup), between(w.interval), share(w.roofline))
        about = f" ({w.about})" if w.about else ""
        table.add_row(say(f"  {w.name}{about}"), w.role, say(w.baseline), *timed)
    return table


def _doubts(console: Console, doubts: Iterable[str]) -> None:
    for doubt in doubts:
        console.print(say(f"  doubt: {doubt}", "yellow"), soft_wrap=True)
