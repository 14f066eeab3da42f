"""A value with its interval as one small drawing, for a table's cell: all rows share a scale, and 1 is marked."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from kevolve.report.charts.svg import Scale, element, line, picture, text

WIDTH, HEIGHT = 170, 20


def scale_of(intervals: Iterable[tuple[float, float] | None]) -> Scale:
    """One scale for all of them, with room for 1 on both sides."""
    ends = [end for interval in intervals if interval is not None for end in interval]
    return Scale(min([0.8, *ends]) * 0.95, max([1.25, *ends]) * 1.05, 6, WIDTH - 6, is_log=True)


def chart(value: float, interval: tuple[float, float], scale: Scale, *, is_confirmed: bool) -> Markup:
    """The cell's drawing. What is not confirmed has no colour that says won or lost."""
    low, high = map(scale, interval)
    kind = "first" if not is_confirmed else "sure" if interval[0] > 1 else "loss" if interval[1] < 1 else "open"
    middle = HEIGHT / 2
    return picture(
        WIDTH, HEIGHT, f"{value:.2f}x, {interval[0]:.2f} to {interval[1]:.2f}",
        line(scale(1), 1, scale(1), HEIGHT - 1, "one"),
        line(low, middle, high, middle, f"reach {kind}"),
        element("circle", cx=scale(value), cy=middle, r=4, class_=f"value {kind}"),
    )  # fmt: skip


def axis(scale: Scale) -> Markup:
    """The scale for a table's head: 1 and one or two more ticks."""
    ticks = [tick for tick in (0.25, 0.5, 1, 2, 3, 5, 10, 20, 50, 100) if scale.low <= tick <= scale.high]
    places: list[tuple[float, float]] = []
    for tick in sorted(ticks, key=lambda tick: tick != 1):  # 1 always has its place
        if all(abs(scale(tick) - place) > 30 for _, place in places):
            places.append((tick, scale(tick)))
    return picture(WIDTH, 14, "speedup", *(text(place, 11, f"{tick:g}x", "tick", "middle") for tick, place in places))
