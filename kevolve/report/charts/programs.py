"""Every program of a search by evaluation: its speedup, the best so far with its interval, baselines as lines.

Rejected programs and faults stand below in a row for each stage. The ancestors of the shown program are joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from kevolve.report.charts.svg import Scale, dots, element, line, picture, polyline, text
from kevolve.report.findings.finding import Finding
from kevolve.report.findings.history import Entry, SearchHistory
from kevolve.verdict import STAGES

WIDTH, LEFT, RIGHT, TOP, PLOT, ROW = 800, 48, 150, 12, 270, 15
ROWS = (*STAGES, "fault")
LABELLED = 3  # baselines
LABEL_SPACE = 12.0
CROWD = 1500  # programs; of more, dots are drawn smaller
STEP_SPACE = 14.0  # between numbers of steps; one that would stand in another's place is left out


@dataclass(frozen=True)
class Best:
    """The best so far from evaluation `number`, at `at` seconds, on."""

    number: int
    at: float
    speedup: float
    interval: tuple[float, float]


def best_so_far(search: SearchHistory) -> list[Best]:
    """Every improvement, in the order in which they were found."""
    found: list[Best] = []
    for entry in sorted(search.entries.values(), key=lambda entry: entry.at):
        better = entry.speedup is not None and (not found or entry.speedup > found[-1].speedup)
        if better and entry.interval is not None and entry.speedup is not None:
            found.append(Best(entry.number, entry.at, entry.speedup, entry.interval))
    return found


def speed_scale(search: SearchHistory, finding: Finding, start: float, end: float) -> Scale:
    """Speedups of nearly all programs, with 1 and the shown interval; the few slowest stay at the edge."""
    speeds = sorted(entry.speedup for entry in search.entries.values() if entry.speedup)
    low = min([0.9, *speeds[len(speeds) // 20 :][:1], finding.plain or 0.9, *(finding.interval or ())])
    high = max([1.25, *speeds, *(best.interval[1] for best in best_so_far(search)[-1:]), *(finding.interval or ())])
    return Scale(max(low, high / 500) * 0.92, high * 1.08, start, end, is_log=True)


def rows_of(search: SearchHistory) -> list[str]:
    """The rows that have something in them."""
    fallen = {_row(entry) for entry in search.entries.values()}
    return [row for row in ROWS if row in fallen]


def chart(search: SearchHistory, finding: Finding) -> Markup:
    """The drawing. Dots of a kind are one path, which the page's script draws anew when programs are filtered."""
    x, y, rows = scales(search, finding)
    height = TOP + PLOT + ROW * len(rows) + 44
    entries = search.entries.values()
    scored = [(x(entry.number), y(entry.speedup)) for entry in entries if entry.speedup]
    fallen = [(x(entry.number), _row_y(rows, _row(entry))) for entry in entries if _row(entry) in rows]
    crowd = " many" if len(entries) > CROWD else ""
    return picture(
        WIDTH, height, f"speedup of every program of {finding.operator} by evaluation",
        *axes(x, y, "evaluation", TOP + PLOT + ROW * len(rows)),
        *_row_names(rows),
        *baseline_lines(finding, y, x),
        *best_line([(best.number, best) for best in best_so_far(search)], x, y),
        dots(scored, f"dot scored{crowd}"),
        dots(fallen, f"dot fallen{crowd}"),
        *_kin(search, finding, x, y),
        *confirmed_mark(finding, x.end + 8, y),
        element("g", class_="hover"),
        data_width=WIDTH,
    )  # fmt: skip


def scales(search: SearchHistory, finding: Finding) -> tuple[Scale, Scale, list[str]]:
    """Where evaluations and speedups are drawn, and the rows below."""
    last = max((entry.number for entry in search.entries.values()), default=0)
    x = Scale(0, max(last, 1), LEFT + 6, WIDTH - RIGHT)
    return x, speed_scale(search, finding, TOP + PLOT, TOP), rows_of(search)


def points(search: SearchHistory, finding: Finding) -> dict[str, Any]:
    """The same programs for the page's script, a column a property; texts that repeat are numbered."""
    x, y, rows = scales(search, finding)
    entries = [entry for entry in search.entries.values() if entry.outcome]
    place = {entry.id: number for number, entry in enumerate(entries)}
    whys, why = _numbered(f"{entry.proposer}: {entry.why}"[:200] for entry in entries)
    reasons, reason = _numbered(entry.reason[:160] for entry in entries)
    return {
        "x": [x.low, x.high, x.start, x.end],
        "y": [y.low, y.high, y.start, y.end],
        "rows": {row: _row_y(rows, row) for row in rows},
        "id": [entry.id for entry in entries],
        "number": [entry.number for entry in entries],
        "at": [round(entry.at) for entry in entries],
        "island": [entry.island for entry in entries],
        "speedup": [entry.speedup and round(entry.speedup, 3) for entry in entries],
        "low": [entry.interval and round(entry.interval[0], 3) for entry in entries],
        "high": [entry.interval and round(entry.interval[1], 3) for entry in entries],
        "worst": [entry.worst and round(entry.worst, 3) for entry in entries],
        "fell": [_row(entry) for entry in entries],
        "parents": [[place[parent] for parent in entry.parents if parent in place] for entry in entries],
        "whys": whys,
        "why": why,
        "reasons": reasons,
        "reason": reason,
    }


def axes(x: Scale, y: Scale, unit: str, foot: float) -> Iterable[Markup]:
    """The grid, with speedups at the left and `unit` below."""
    for tick in y.ticks():
        yield line(x.start - 6, y(tick), x.end, y(tick), "grid")
        yield text(x.start - 10, y(tick) + 4, f"{tick:g}x", "tick", "end")
    for tick in x.ticks():
        yield line(x(tick), foot, x(tick), foot + 4, "axis")
        yield text(x(tick), foot + 17, f"{tick:g}", "tick", "middle")
    yield line(x.start - 6, foot, x.end, foot, "axis")
    yield text((x.start + x.end) / 2, foot + 35, unit, "name", "middle")


def baseline_lines(finding: Finding, y: Scale, x: Scale, *, named: bool = True) -> Iterable[Markup]:
    """The fastest of all on each workload, which is 1, and the best few of them by themselves."""
    shown = [("fastest baseline", 1.0)]
    inside = [pair for pair in finding.baselines.items() if pair[1] > y.low]
    shown += [pair for pair in inside if pair[1] < 0.995][:LABELLED]
    before = float("-inf")
    for name, share in sorted(shown, key=lambda pair: -pair[1]):
        kind = "baseline fastest" if share == 1.0 else "baseline"
        yield line(x.start - 6, y(share), x.end, y(share), kind)
        before = max(y(share), before + LABEL_SPACE)
        if named:
            label = name if len(name) <= 24 else name[:23] + "…"
            yield text(x.end + 6, before + 4, f"{share:.2f}x {label}" if share != 1.0 else f"1x {label}", "label")


def best_line(found: Sequence[tuple[float, Best]], x: Scale, y: Scale) -> Iterable[Markup]:
    """The best so far as stairs, with the interval of each as a band behind."""
    if not found:
        return
    ends = [place for place, _ in found[1:]] + [x.high]
    steps = [(x(place), x(end), best) for (place, best), end in zip(found, ends, strict=True)]
    above = [(at, y(best.interval[1])) for start, end, best in steps for at in (start, end)]
    below = [(at, y(best.interval[0])) for start, end, best in steps for at in (start, end)]
    yield polyline([*above, *reversed(below)], "band", closed=True)
    yield polyline([(at, y(best.speedup)) for start, end, best in steps for at in (start, end)], "best")


def confirmed_mark(finding: Finding, x: float, y: Scale) -> Iterable[Markup]:
    """The confirmed speedup with its interval, beyond the last evaluation."""
    if finding.state == "unconfirmed" or finding.speedup is None or finding.interval is None:
        return
    low, high, middle = y(finding.interval[0]), y(finding.interval[1]), y(finding.speedup)
    for end in (low, high):
        yield line(x - 4, end, x + 4, end, "confirmed")
    yield line(x, low, x, high, "confirmed")
    yield polyline([(x - 5, middle), (x, middle - 5), (x + 5, middle), (x, middle + 5)], "confirmed", closed=True)
    yield text(x + 10, middle + 4, f"{finding.speedup:.2f}x confirmed", "label strong")


def _kin(search: SearchHistory, finding: Finding, x: Scale, y: Scale) -> Iterable[Markup]:
    """The shown program's ancestors, joined to their parents; those on the way that the page tells are numbered."""

    def at(entry: Entry) -> tuple[float, float]:
        return x(entry.number), y(entry.speedup or y.low)

    kin = {id: search.entries[id] for id in finding.ancestors if search.entries[id].speedup}
    for entry in kin.values():
        for parent in entry.parents:
            if parent in kin:
                yield polyline([at(kin[parent]), at(entry)], "kin")
    yield dots([at(entry) for entry in kin.values()], "dot kin")
    taken: list[tuple[float, float]] = []
    for number, step in enumerate(finding.steps):
        if number and step.id in kin:
            across, up = at(kin[step.id])
            if all(abs(across - left) > STEP_SPACE or abs(up - top) > STEP_SPACE for left, top in taken):
                taken.append((across, up))
                yield text(across, up - 7, number, "step", "middle")


def _row(entry: Entry) -> str:
    """The row below the chart that a program is in, or nothing."""
    return {"Rejected": entry.stage, "Fault": "fault"}.get(entry.outcome, "")


def _row_y(rows: Sequence[str], row: str) -> float:
    return TOP + PLOT + ROW * (rows.index(row) + 0.5) + 2


def _row_names(rows: Sequence[str]) -> Iterable[Markup]:
    for row in rows:
        name = row if row == "fault" else f"rejected: {row}"
        yield text(WIDTH - RIGHT + 6, _row_y(rows, row) + 4, name, "label fallen")


def _numbered(texts: Iterable[str]) -> tuple[list[str], list[int]]:
    """The different texts, and for each text its place among them."""
    known: dict[str, int] = {}
    places = [known.setdefault(said, len(known)) for said in texts]
    return list(known), places
