"""The MLflow side of tracking: one run for the search, and one below it per operator and device."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import kevolve
from kevolve.config import Config
from kevolve.configuration.schema import as_yaml, flat_values, shown
from kevolve.tracking.address import check_address, redact

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run


REQUEST_SECONDS = 3  # a server that takes longer for one answer is treated as dead
SERVER_SECONDS = 8.0  # and so is one that takes longer than this for a whole flush

Search = tuple[str, str]  # operator, device
Point = tuple[str, float, int, float]  # metric, value, step, seconds since 1970


def experiment_of(config: Config) -> str:
    """The MLflow experiment that the run goes to: one for each `+experiment`, unless one was named."""
    if config.tracking.experiment is not None:
        return config.tracking.experiment
    return f"kevolve-{config.experiment}" if config.experiment else "kevolve"


class Store:
    """Explicit run ids, no active run, and a deadline on servers. Methods raise whatever MLflow raises."""

    def __init__(self, config: Config):
        check_address(config.tracking.uri, REQUEST_SECONDS)
        # A dead server must be found out in seconds; a user who set these knows better.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(REQUEST_SECONDS))
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        self.config = config
        self.uri = config.tracking.uri
        self.is_server = self.uri.startswith(("http://", "https://"))
        self.deadline = float("inf")
        self.is_described = False
        self.runs: dict[Search | None, Run] = {}
        self.started: float | None = None  # when the run did, in seconds since 1970; now if it is not known
        self._client = MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)
        self.begin()
        self.experiment = self._experiment()

    def begin(self) -> None:
        """A flush starts, and with it its deadline. Raises as `check_address` does if the store has gone or is held."""
        check_address(self.uri, REQUEST_SECONDS)  # MLflow itself waits 20 s for a database, at every call
        self.deadline = time.monotonic() + SERVER_SECONDS if self.is_server else float("inf")

    @property
    def client(self) -> MlflowClient:
        """The client, unless the server has used up this flush's time."""
        if time.monotonic() > self.deadline:
            raise TimeoutError(f"it took more than {SERVER_SECONDS:.0f} s")
        return self._client

    def run_of(self, search: Search | None) -> Run:
        """The MLflow run of a search, or of the whole run for None: found again when resumed, else made."""
        if search not in self.runs:
            self.runs[search] = (self._earlier(search) if self.config.resume else None) or self._make(search)
        return self.runs[search]

    def describe(self) -> None:
        """The configuration, as parameters to filter by and as a file. Written once a session."""
        if self.is_described:
            return
        from mlflow.entities import Param

        run = self.run_of(None)
        config = replace(self.config, tracking=replace(self.config.tracking, uri=redact(self.uri)))
        known = run.data.params  # those of a resumed run stay: MLflow does not change a parameter
        params = [Param(name, shown(value)) for name, value in flat_values(config).items() if name not in known]
        self.client.log_batch(run.info.run_id, params=params)
        self.log_text(run, as_yaml(config), "config.yaml")
        self.is_described = True

    def log_points(self, run: Run, points: Iterable[Point]) -> None:
        """Write metrics. MLflow ignores a point that it has already."""
        from mlflow.entities import Metric

        metrics: list[Metric] = [Metric(name, value, int(at * 1000), step) for name, value, step, at in points]
        self.client.log_batch(run.info.run_id, metrics=metrics)

    def log_text(self, run: Run, text: str, name: str) -> None:
        self.client.log_text(run.info.run_id, text, name)

    def tag(self, run: Run, tags: Mapping[str, str], params: Mapping[str, str] | None = None) -> None:
        """Set tags, and parameters that never change, all in one request."""
        from mlflow.entities import Param, RunTag

        told = [Param(name, value) for name, value in (params or {}).items()]
        self.client.log_batch(run.info.run_id, params=told, tags=[RunTag(name, value) for name, value in tags.items()])

    def end(self, status: str, moment: float) -> None:
        """Every run ends as the kevolve run did, and when it did (seconds since 1970)."""
        for run in self.runs.values():
            self.client.set_terminated(run.info.run_id, status, int(moment * 1000))

    def _experiment(self) -> str:
        name = experiment_of(self.config)
        found = self.client.get_experiment_by_name(name)
        if found is None:
            # Or MLflow takes it for one about language models, and shows pages for those first.
            kind = {"mlflow.experimentKind": "custom_model_development"}
            return str(self.client.create_experiment(name, artifact_location=self._artifacts(), tags=kind))
        return str(found.experiment_id)

    def _artifacts(self) -> str | None:
        """Files of a local store go beside its database, wherever the command was typed; a server knows its own."""
        if not self.uri.startswith("sqlite:///"):
            return None
        return (Path(self.uri.removeprefix("sqlite:///")).resolve().parent / "mlartifacts").as_uri()

    def _earlier(self, search: Search | None) -> Run | None:
        tags = " and ".join(f"tags.`{name}` = '{value}'" for name, value in self._identity(search).items())
        found = self.client.search_runs([self.experiment], tags, max_results=1)
        if not found:
            return None
        self.client.update_run(found[0].info.run_id, status="RUNNING")
        return found[0]

    def _identity(self, search: Search | None) -> dict[str, str]:
        operator, device = search or ("all", "all")
        return {"kevolve.run": str(self.config.name), "kevolve.operator": operator, "kevolve.device": device}

    def _make(self, search: Search | None) -> Run:
        tags = {**self._identity(search), **source_tags()}
        if search is not None:
            tags["mlflow.parentRunId"] = self.run_of(None).info.run_id
        name = f"{self.config.name}" if search is None else "-".join(search)
        started = None if self.started is None else int(self.started * 1000)
        return self.client.create_run(self.experiment, start_time=started, tags=tags, run_name=name)


@cache
def source_tags() -> dict[str, str]:
    """Which kevolve wrote a run, in the tags that MLflow shows as its source; the commit if this is a checkout."""
    tags = {"kevolve.version": kevolve.__version__, "mlflow.source.name": "kevolve.run", "mlflow.source.type": "LOCAL"}
    folder = Path(kevolve.__file__).parent.parent
    if (folder / ".git").exists() and shutil.which("git"):
        asked = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True)
        if asked.returncode == 0:
            tags["mlflow.source.git.commit"] = asked.stdout.strip()
    return tags
