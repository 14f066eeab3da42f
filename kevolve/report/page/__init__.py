"""The page: one HTML file with everything in it, readable without scripts and better with them.

Nothing is loaded, so it works offline and in MLflow's viewer, which gives a page no origin. Templates escape whatever
they are given, and the data for the script is JSON without a `<`: programs are hostile, names and reasons included.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from kevolve.report.charts import interval, programs, roofline, time
from kevolve.report.charts.svg import Scale
from kevolve.report.findings.finding import Finding, WorkloadFinding
from kevolve.report.findings.history import History, SearchHistory
from kevolve.report.findings.review import USES, Review, commands, usage
from kevolve.report.page.show import SHOWN
from kevolve.screen import ENDS

if TYPE_CHECKING:
    from jinja2 import Template

FOLDER = Path(__file__).parent
SOURCE_KEPT = 200_000  # characters of the shown program
POINTS_KEPT = 20_000  # programs that can be pointed at; a longer run's page has all as dots


def page_of(history: History, review: Review) -> str:
    """The whole file."""
    scale = interval.scale_of(finding.interval for finding in review.findings)
    drawn = {
        (finding.operator, finding.device): _drawn(history, search, finding, review)
        for search, finding in zip(history.searches.values(), review.findings, strict=True)
    }
    points = {
        f"{operator} {device}": programs.points(search, finding)
        for (operator, device), search, finding in zip(
            history.searches, history.searches.values(), review.findings, strict=True
        )
        if len(search.entries) <= POINTS_KEPT and finding.program and finding.tried
    }
    data = json.dumps(points, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")
    return _template().render(
        review=review,
        drawn=drawn,
        scale=scale,
        axis=interval.axis,
        overview=lambda finding: _cell(finding, finding, scale),
        style=(FOLDER / "style.css").read_text(),
        script=(FOLDER / "script.js").read_text(),
        data=data,
        uses=USES,
        ends=ENDS,
    )


def _drawn(history: History, search: SearchHistory, finding: Finding, review: Review) -> dict[str, Any]:
    """What the section on one search needs beside its finding."""
    if finding.program is None:
        return {}
    source = history.source(search.entries[finding.program])
    scale = interval.scale_of(w.interval for w in finding.workloads)
    peaks = history.environment.get(finding.device, {}).get("peaks", {})
    drawn = {
        "programs": programs.chart(search, finding),
        "rows": programs.rows_of(search),
        "time": time.chart(search, finding, review.spent.seconds),
    }
    return {
        **(drawn if finding.tried else {"programs": None}),
        "roofline": roofline.chart(finding, peaks),
        "scale": scale,
        "cell": lambda w: _cell(finding, w, scale),
        "names": sorted({name for w in finding.workloads for name in (*w.baselines_us, *w.dropped)}),
        "source": source and source[:SOURCE_KEPT],
        "source_left": max(0, len(source or "") - SOURCE_KEPT),
        "commands": commands(review, finding),
        "usage": usage(finding),
    }


def _cell(finding: Finding, measured: Finding | WorkloadFinding, scale: Scale) -> Markup:
    """The drawing of a speedup of the search's program, over all or on a workload."""
    if measured.speedup is None or measured.interval is None:
        return Markup()
    return interval.chart(measured.speedup, measured.interval, scale, is_confirmed=finding.state != "unconfirmed")


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters.update(SHOWN)
    return made.get_template("page.html")
