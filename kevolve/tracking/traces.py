"""Calls of models as MLflow traces, if somebody asks for them (`tracking.traces`): what was said, answered and paid.

They are made of the run's events when it ends, with the times that they had. Prompts and replies are as the run keeps
them, so without keys and home folders.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kevolve.events import Event, read_events
from kevolve.population import read_text

if TYPE_CHECKING:
    from kevolve.tracking.store import Search, Store

ADDRESS = "MLFLOW_TRACKING_URI"  # which MLflow sets along with its own
SYNCHRONOUS = "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"  # or what cannot be written is told to a log, and to nobody else
CALL = "kevolve.call"  # the number of the call's event: none is sent twice
BATCH = 50  # traces that one flush's time is for
NANO = 1_000_000_000


@dataclass(frozen=True)
class Told:
    """One call of a model, and the program that came of it (empty: none)."""

    event: Event
    program: str

    @property
    def search(self) -> Search:
        return (self.event.data["operator"], self.event.data["device"])


def log_traces(store: Store, folder: Path) -> None:
    """Every call of the run in `folder` that is not there yet."""
    told = list(calls_of(folder))
    known = _known(store) if told and store.config.resume else set()
    missing = [one for one in told if str(one.event.seq) not in known]
    for first in range(0, len(missing), BATCH):
        store.begin()
        with _at(store):
            for one in missing[first : first + BATCH]:
                _log(store, folder, one)


def calls_of(folder: Path) -> Iterator[Told]:
    """The calls in the run's events, in order."""
    calls: list[Event] = []
    programs: dict[str, str] = {}
    for event in read_events(folder / "events.jsonl"):
        if event.kind == "called":
            calls.append(event)
        elif event.kind == "proposed":
            for call in event.data["program"]["origin"].get("calls", ()):
                programs[_name(call)] = event.data["program"]["id"]
    for event in calls:
        yield Told(event, programs.get(_name(event.data["call"]), ""))


def _name(call: dict[str, Any]) -> str:
    """What tells calls apart."""
    return f"{call['prompt']} {call['reply']} {call['seconds']}"


def _log(store: Store, folder: Path, told: Told) -> None:
    import mlflow
    from mlflow.entities import SpanType

    call, run = told.event.data["call"], store.run_of(told.search)
    facts = {name: value for name, value in call.items() if name not in ("prompt", "reply")}
    ended = int(told.event.time * NANO)
    tags = {
        "kevolve.run": str(store.config.name),
        CALL: str(told.event.seq),
        "kevolve.request": str(told.event.data["asked"]),
        "kevolve.program": told.program,
        "kevolve.operator": told.event.data["operator"],
        "kevolve.device": told.event.data["device"],
        "kevolve.model": call["model"],
        "kevolve.outcome": call["outcome"],
    }
    # MLflow would say which file was started, with its whole path, and who is at home here.
    about = {"mlflow.sourceRun": run.info.run_id, "mlflow.source.name": "kevolve.run", "mlflow.user": ""}
    span = mlflow.start_span_no_context(
        f"{call['purpose']} by {call['model']}",
        span_type=SpanType.LLM,
        inputs={"prompt": read_text(folder, call["prompt"])},
        tags=tags,
        metadata=about,
        experiment_id=store.experiment,
        start_time_ns=ended - int(call["seconds"] * NANO),
    )
    tokens = {"input_tokens": call["prompt_tokens"], "output_tokens": call["reply_tokens"]}
    tokens["total_tokens"] = sum(tokens.values())
    span.set_attributes({**facts, "mlflow.chat.tokenUsage": tokens, "mlflow.llm.model": call["model"]})
    status = "ERROR" if call["outcome"] == "failed" else "OK"
    span.end(outputs={"reply": read_text(folder, call["reply"])}, status=status, end_time_ns=ended)


def _known(store: Store) -> set[str]:
    """The numbers of the calls that are there."""
    found: set[str] = set()
    token = None
    while True:
        page = store.client.search_traces(
            locations=[store.experiment],
            filter_string=f"tags.`kevolve.run` = '{store.config.name}'",
            max_results=500,
            page_token=token,
            include_spans=False,
        )
        found |= {trace.info.tags.get(CALL, "") for trace in page}
        token = page.token
        if not token:
            return found


@contextlib.contextmanager
def _at(store: Store) -> Iterator[None]:
    """Inside, MLflow's tracing, which knows one store for the whole process, writes to the run's."""
    import mlflow

    is_set: Any = mlflow.is_tracking_uri_set
    before: Any = mlflow.get_tracking_uri() if is_set() else None
    was = {name: os.environ.get(name) for name in (SYNCHRONOUS, ADDRESS)}
    os.environ[SYNCHRONOUS] = "false"
    mlflow.set_tracking_uri(store.uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(before)  # None: as if nobody had ever said
        for name, value in was.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
