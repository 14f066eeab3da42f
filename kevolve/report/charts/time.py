"""The best speedup so far against time: when was it found, and would a shorter run have done?"""

from __future__ import annotations

from markupsafe import Markup

from kevolve.report.charts.programs import axes, baseline_lines, best_line, best_so_far, speed_scale
from kevolve.report.charts.svg import Scale, picture
from kevolve.report.findings.finding import Finding
from kevolve.report.findings.history import SearchHistory

WIDTH, LEFT, RIGHT, TOP, PLOT = 420, 48, 12, 12, 270


def chart(search: SearchHistory, finding: Finding, seconds: float) -> Markup:
    """`seconds` is how long the run took in all."""
    minutes = max(seconds, 1.0) / 60
    x = Scale(0, minutes, LEFT + 6, WIDTH - RIGHT)
    y = speed_scale(search, finding, TOP + PLOT, TOP)
    return picture(
        WIDTH, TOP + PLOT + 44, f"best speedup of {finding.operator} by minutes",
        *axes(x, y, "minutes of the run", TOP + PLOT),
        *baseline_lines(finding, y, x, named=False),
        *best_line([(best.at / 60, best) for best in best_so_far(search)], x, y),
    )  # fmt: skip
