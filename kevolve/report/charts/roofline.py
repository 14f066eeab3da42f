"""The roofline: how near the program comes to what the machine was measured to be able to do, workload by workload.

Across is the least time that the cost model allows at the measured rates, up the share of that bound that was reached:
the roof is 1. So workloads that move data and workloads that compute stand in one drawing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from kevolve.report.charts.svg import Scale, element, line, picture, text
from kevolve.report.findings.finding import Finding, WorkloadFinding
from kevolve.screen import percent

WIDTH, LEFT, RIGHT, TOP, PLOT = 620, 52, 96, 26, 270
LETTER, LINE = 6.3, 12.0  # the room that labels take


def chart(finding: Finding, peaks: Mapping[str, float]) -> Markup:
    """`peaks` are the device's measured rates per second, by name; empty if they are not known."""
    x, y = _scales(finding.workloads, _in_cache(peaks))
    return picture(
        WIDTH, TOP + PLOT + 44, f"share of the roofline that {finding.operator} reaches on each workload",
        *_axes(x, y),
        *_roofs(peaks, x, y),
        *_workloads(finding.workloads, x, y),
    )  # fmt: skip


def _in_cache(peaks: Mapping[str, float]) -> float | None:
    """How much faster a cache is read than memory is copied."""
    copy, cache = peaks.get("copy_bytes_per_s"), peaks.get("cache_read_bytes_per_s")
    return cache / copy if copy and cache else None


def _scales(workloads: Sequence[WorkloadFinding], in_cache: float | None) -> tuple[Scale, Scale]:
    floors = [w.floor_us for w in workloads]
    shares = [share for w in workloads for share in (w.roofline, w.floor_us / w.baseline_us)]
    top = max(1.3, *shares, (in_cache or 0) * 1.15 if max(shares) > 0.5 else 0)
    x = Scale(min(floors) / 1.3, max(floors) * 1.3, LEFT, WIDTH - RIGHT, is_log=True)
    return x, Scale(min(shares) / 1.3, top, TOP + PLOT, TOP, is_log=True)


def _axes(x: Scale, y: Scale) -> Iterable[Markup]:
    for tick in y.ticks():
        yield line(x.start, y(tick), x.end, y(tick), "grid")
        yield text(x.start - 6, y(tick) + 4, f"{tick:.3g}", "tick", "end")
    for tick in x.ticks():
        yield line(x(tick), y.start, x(tick), y.start + 4, "axis")
        yield text(x(tick), y.start + 17, f"{tick:g}", "tick", "middle")
    yield line(x.start, y.start, x.end, y.start, "axis")
    yield text((x.start + x.end) / 2, y.start + 35, "least possible time, us", "name", "middle")
    yield text(x.start - 40, y.end - 12, "share of the roofline reached", "name")


def _roofs(peaks: Mapping[str, float], x: Scale, y: Scale) -> Iterable[Markup]:
    rates = [
        f"{peaks[rate] / 1e9:,.0f} {unit}"
        for rate, unit in (("copy_bytes_per_s", "GB/s copied"), ("flops_per_s", "GFLOP/s"))
        if peaks.get(rate)
    ]
    yield line(x.start, y(1), x.end, y(1), "roof")
    yield text(x.end, y(1) - 5, f"1 = {' or '.join(rates) or 'measured peak'}", "label strong", "end")
    in_cache = _in_cache(peaks)
    if in_cache and 1 < in_cache < y.high:
        yield line(x.start, y(in_cache), x.end, y(in_cache), "roof cache")
        yield text(
            x.end, y(in_cache) - 5, f"{peaks['cache_read_bytes_per_s'] / 1e9:,.0f} GB/s in cache", "label", "end"
        )


def _workloads(workloads: Sequence[WorkloadFinding], x: Scale, y: Scale) -> Iterable[Markup]:
    places = {w.name: (x(w.floor_us), y(w.roofline), y(w.floor_us / w.baseline_us)) for w in workloads}
    # Labels keep clear of each other and of every point: (left, right, middle).
    taken = [(across - 5, across + 5, up) for across, program, before in places.values() for up in (program, before)]
    for w in sorted(workloads, key=lambda w: -w.roofline):
        across, program, before = places[w.name]
        told = f"{w.name} ({w.role}): {w.program_us:.1f} us, {percent(w.roofline)} of the roofline"
        yield element(
            "g",
            element("title", f"{told}; {w.baseline} {w.baseline_us:.1f} us"),
            line(across, program, across, before, "gain"),
            element("circle", cx=across, cy=before, r=4, class_="point before"),
            element("circle", cx=across, cy=program, r=5, class_=f"point {w.role}"),
        )
        left, middle = _free(across, program, len(w.name) * LETTER, taken)
        taken.append((left, left + len(w.name) * LETTER, middle))
        yield text(left, middle + 4, w.name, "label")


def _free(x: float, y: float, width: float, taken: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """The place nearest to a point, at its right or left, that no other label or point has."""
    for away in range(60):
        for left in (x + 8, x - 8 - width):
            for middle in (y + 2 * away, y - 2 * away):
                if all(left > right or left + width < start or abs(middle - at) > LINE for start, right, at in taken):
                    return left, middle
    return x + 8, y
