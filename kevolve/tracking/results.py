"""What a run has come to, written to MLflow: tags and notes to read, data sets, models, the report and the lineage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kevolve.languages.registry import language
from kevolve.report.findings.finding import Finding
from kevolve.report.findings.history import History, SearchHistory
from kevolve.report.findings.review import Review, review_of
from kevolve.report.listener import PAGE
from kevolve.report.page.show import between, share, times
from kevolve.report.tables import rows
from kevolve.tracking.models import log_models

if TYPE_CHECKING:
    from mlflow.entities import Run

    from kevolve.tracking.store import Store

TABLE = "lineage.json"
COLUMNS = (
    "operator", "program", "parents", "evaluation", "island", "outcome", "speedup", "low", "high", "worst", "stage",
    "reason", "proposer", "why",
)  # fmt: skip


def log_results(store: Store, history: History) -> None:
    """Everything that is known when a run ends. Written twice, it replaces what was there."""
    review = review_of(history)
    parent = store.run_of(None)
    store.log_text(parent, history.summary.to_json(), "summary.json")
    page = history.folder / PAGE
    if page.exists():
        store.log_text(parent, page.read_text(encoding="utf-8"), PAGE)
    # As `log_table` writes it, which appends to what a resumed run has there already.
    store.log_text(parent, lineage_table(history), TABLE)
    shown = json.dumps([{"path": TABLE, "type": "table"}])
    store.tag(parent, {"mlflow.loggedArtifacts": shown, "mlflow.note.content": note(review), **_machine(review)})
    for search, finding in zip(history.searches.values(), review.findings, strict=True):
        store.begin()  # each search has a server's patience to itself
        run = store.run_of((search.operator, search.device))
        tags = {**_machine(review, search.device), **finding_tags(finding), "mlflow.note.content": claim(finding)}
        store.tag(run, tags, _parameters(review, search))
        _log_data_set(store, run, search)
        _log_program(store, run, history, search)
        log_models(store, run, history, search, finding)


def lineage_table(history: History) -> str:
    """Every program as a row, in the form of MLflow's tables."""
    data = [[row[column] for column in COLUMNS] for row in rows(history)]
    return json.dumps({"columns": COLUMNS, "data": data})


def note(review: Review) -> str:
    """What a person reads first on the run's page, in Markdown: MLflow shows some lines of it, the rest on demand."""
    sure = [f for f in review.findings if f.state == "faster"]
    best = ", ".join(f"{f.operator} {times(f.speedup)}" for f in sure) or "none"
    lines = [
        f"**Surely faster than the fastest baseline: {len(sure)} of {len(review.findings)}** ({best}).",
        *([" ".join(review.told)] if review.told else []),
        f"How sure, where not, and how it was found: `{PAGE}` among the artifacts; every program: `{TABLE}`.",
        "",
        "| operator | speedup | believe it? | 95 % interval | worst | unseen sizes | worst unseen | slower on |",
        "| --- | ---: | --- | --- | ---: | ---: | ---: | --- |",
    ]
    for f in review.findings:
        numbers = (times(f.worst), times(f.holdout), times(f.worst_holdout))
        cells = (f.operator, times(f.speedup), f.claim, between(f.interval), *numbers, f.slower_told)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(f"- Doubt: {doubt}" for doubt in review.doubts)])


def claim(f: Finding) -> str:
    """The same about one search."""
    if f.program is None:
        return f"{f.operator}: {f.claim}."
    told = f"**{times(f.speedup)}** ({between(f.interval)}) over the fastest baseline on each workload: {f.claim}."
    doubts = [f"- {doubt}" for doubt in f.doubts]
    return "\n".join([f"{told} {f.language} program `{f.program}`, {share(f.roofline)} of the roofline.", "", *doubts])


def finding_tags(f: Finding) -> dict[str, str]:
    """What a run list can be filtered by."""
    tags: dict[str, str] = {"kevolve.state": f.state}
    if f.program is not None and f.interval is not None:
        tags |= {
            "kevolve.program": f.program,
            "kevolve.parents": " ".join(f.steps[-1].parents) if f.steps else "",
            "kevolve.language": f.language,
            "kevolve.confirmed": str(f.state != "unconfirmed").lower(),
            "kevolve.speedup": f"{f.speedup:.4f}",
            "kevolve.interval": f"{f.interval[0]:.4f} to {f.interval[1]:.4f}",
            "kevolve.slower_on": " ".join(f.slower_on),
        }
    return tags


def _log_program(store: Store, run: Run, history: History, search: SearchHistory) -> None:
    """The shown program's source, where whoever looks at the run's files finds it."""
    best = search.best
    source = history.source(best) if best else None
    if best is not None and source is not None:
        suffix = language(str(best.record["language"])).suffix
        store.log_text(run, source, f"{'champion' if search.champion else 'best'}/program{suffix}")


def _parameters(review: Review, search: SearchHistory) -> dict[str, str]:
    """What charts of several searches are grouped by."""
    config = review.config
    return {
        "operator": search.operator,
        "device": search.device,
        "proposer": str(config["proposer"]["name"]),
        "policy": str(config["policy"]["name"]),
        "seed": str(config["seed"]),
        "baselines": str(config["judge"].get("baselines", "all")),
    }


def _machine(review: Review, device: str | None = None) -> dict[str, str]:
    """Where it was measured."""
    about: Mapping[str, Any] = review.environment.get(device or next(iter(review.environment), ""), {})
    names = {"toolchain": "toolchain", "sandbox_tier": "sandbox", "self_test": "self_test", "node": "node"}
    return {f"kevolve.{tag}": str(about[name]) for name, tag in names.items() if about.get(name)}


def _log_data_set(store: Store, run: Run, search: SearchHistory) -> None:
    """The operator's workloads with what the baselines take there, as the data set that the run was about."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    made = Dataset(
        name=f"{search.operator} workloads",
        digest=(search.operator_version or "unknown")[:36],
        source_type="kevolve",
        source=json.dumps({"operator": search.operator, "workloads": list(search.times_us)}),
        profile=json.dumps({"baselines_us": search.times_us})[:60_000],
    )
    if search.times_us:
        store.client.log_inputs(run.info.run_id, [DatasetInput(made, [InputTag("mlflow.data.context", "evaluation")])])
