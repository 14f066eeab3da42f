"""Quiet: what libraries have to say goes to the run's log, so that the screen is the run's own."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from kevolve.config import Config
from kevolve.search.listener import Listener

if TYPE_CHECKING:
    from kevolve.events import Event
    from kevolve.summary import Summary

# Read by the libraries when they are imported; whoever set one of them knows better.
VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # Ray warns about this until it is set
    "MLFLOW_CONFIGURE_LOGGING": "false",  # no handlers of its own: its lines go to the log as well
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}


def quieten() -> None:
    """Before a heavy package is imported: nothing but the screen writes to the screen."""
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # a log that a full disk refuses is no reason for tracebacks on the screen
    root = logging.getLogger()
    root.addHandler(logging.NullHandler())  # without any handler, Python prints warnings itself
    root.setLevel(logging.INFO)
    for name in ("alembic", "sqlalchemy", "urllib3", "matplotlib"):
        logging.getLogger(name).setLevel(logging.WARNING)


class RunLog(Listener):
    """Writes `run.log` in the run's folder, from the moment the folder is this run's."""

    def __init__(self, config: Config):
        self.path = Path(config.runs_dir) / str(config.name) / "run.log"
        self.handler: logging.Handler | None = None

    def heard(self, event: Event) -> None:
        if event.kind == "opened":
            self.handler = logging.FileHandler(self.path, encoding="utf-8")
            self.handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
            logging.getLogger().addHandler(self.handler)

    def closed(self, summary: Summary) -> None:
        if self.handler is not None:
            logging.getLogger().removeHandler(self.handler)
            self.handler.close()
