"""The listener that writes the report when a run ends, however it ends. Importing this imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kevolve.config import Config
from kevolve.search.listener import Listener

if TYPE_CHECKING:
    from kevolve.events import Event
    from kevolve.summary import Summary


PAGE = "report.html"  # in the run's folder


class Reporter(Listener):
    """Writes `report.html` into the run's folder. `warn` shows one line to the user if that fails."""

    def __init__(self, config: Config, warn: Callable[[str], None]) -> None:
        self._folder = Path(config.runs_dir) / str(config.name)
        self._warn = warn

    def heard(self, event: Event) -> None:
        """The page is made from the run's folder, where every event is."""

    def closed(self, summary: Summary) -> None:
        from kevolve.report.findings.history import read_history
        from kevolve.report.write import write_page

        try:
            write_page(read_history(self._folder))
        except Exception as error:  # any: a page that cannot be drawn must not cost a finished run its end
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            self._warn(
                f"warning: the report could not be written ({reason[:200]}). Nothing is lost: "
                f"python -m kevolve.report {summary.name} --runs-dir {self._folder.parent} writes it."
            )
