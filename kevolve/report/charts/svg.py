"""SVG elements and scales. Whatever is put into an element is escaped: names come from programs and users."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape


def element(name: str, *content: object, **attributes: object) -> Markup:
    """`<name ...>content</name>`. `class_` is `class`, and other underscores are dashes; None leaves one out."""
    told = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _plain(value))
        for key, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(escape(part) for part in content)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), told, inner) if content else Markup(f"<{name}{told}/>")


def picture(width: int, height: int, title: str, *content: object, **attributes: object) -> Markup:
    """A drawing that fills the width it is given. `title` is read out to who cannot see it."""
    return element(
        "svg",
        element("title", title),
        *content,
        viewBox=f"0 0 {width} {height}",
        role="img",
        class_="chart",
        **attributes,
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def text(x: float, y: float, content: object, kind: str = "", anchor: str = "start") -> Markup:
    return element("text", content, x=x, y=y, class_=kind or None, text_anchor=anchor)


def dots(points: Iterable[tuple[float, float]], kind: str) -> Markup:
    """Any number of dots as one path, which browsers draw thousands of at once. Their size is the path's stroke."""
    return element("path", d="".join(f"M{_plain(x)} {_plain(y)}h0" for x, y in points), class_=kind)


def polyline(points: Iterable[tuple[float, float]], kind: str, *, closed: bool = False) -> Markup:
    """A line through the points."""
    d = "L".join(f"{_plain(x)} {_plain(y)}" for x, y in points)
    return element("path", d=f"M{d}{'Z' if closed else ''}", class_=kind) if d else Markup("")


@dataclass(frozen=True)
class Scale:
    """From values `low` to `high` to places `start` to `end`; values outside are put at the edge."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = self.low, self.high, min(max(value, self.low), self.high)
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / ((high - low) or 1) * (self.end - self.start)

    def ticks(self) -> Sequence[float]:
        """A handful of round values."""
        return _log_ticks(self.low, self.high) if self.is_log else _even_ticks(self.low, self.high)


def _even_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 5 or 1
    unit = 10 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    first = math.ceil(low / step)
    return [round(step * place, 10) for place in range(first, math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 of each power of ten, fewer over a wide range and more over a narrow one."""
    decades = math.log10(high / low)
    many = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    factors = (1,) if decades > 3.5 else (1, 2, 5) if decades > 1.2 else (1, 1.5, 2, 3, 5) if decades > 0.5 else many
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [tick for power in powers for factor in factors if low <= (tick := round(factor * 10.0**power, 10)) <= high]


def _plain(value: object) -> object:
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
