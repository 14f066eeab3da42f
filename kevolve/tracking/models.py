"""Programs as MLflow models: those that were measured again as logged models, champions in the model registry."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kevolve.languages.registry import language
from kevolve.report.findings.finding import Finding
from kevolve.report.findings.history import Confirmation, History, SearchHistory
from kevolve.report.findings.review import PACKAGE, usage
from kevolve.report.page.show import between, times
from kevolve.verdict import Fitness, Scored, from_json

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel, Metric, Run
    from mlflow.entities.model_registry import ModelVersion

    from kevolve.tracking.store import Store

MODEL_TYPE = "kevolve-program"
ALIAS = "champion"


def registered_name(operator: str, device: str) -> str:
    """The name of an operator's champions in the registry."""
    return f"kevolve.{operator}.{device}"


def log_models(store: Store, run: Run, history: History, search: SearchHistory, finding: Finding) -> None:
    """A logged model for each program that was right and timed again on fresh data; the champion is registered.

    Only the champion is the run's output, which MLflow names beside the run.
    """
    known = {model.tags.get("kevolve.program"): model for model in _logged(store, run)} if store.config.resume else {}
    for confirmation in search.confirmations.values():
        verdict = from_json(confirmation.verdict)
        if not isinstance(verdict, Scored):
            continue
        is_champion = confirmation.program == search.champion
        model = known.get(confirmation.program) or _log(store, run, history, search, confirmation, verdict)
        store.client.set_logged_model_tags(model.model_id, {"kevolve.champion": str(is_champion).lower()})
        if is_champion:
            _put_out(store, run, model, search.entries[confirmation.program].number)
            _crown(store, run, search, finding, confirmation, model)


def _put_out(store: Store, run: Run, model: LoggedModel, evaluation: int) -> None:
    """Make the model the run's output; MLflow would write it down twice."""
    from mlflow.entities import LoggedModelOutput

    outputs = store.client.get_run(run.info.run_id).outputs
    if outputs is None or model.model_id not in {output.model_id for output in outputs.model_outputs}:
        store.client.log_outputs(run.info.run_id, [LoggedModelOutput(model.model_id, evaluation)])


def _logged(store: Store, run: Run) -> list[LoggedModel]:
    found = store.client.search_logged_models([store.experiment], f"source_run_id = '{run.info.run_id}'")
    return list(found)


def _log(
    store: Store, run: Run, history: History, search: SearchHistory, told: Confirmation, verdict: Scored
) -> LoggedModel:
    """The program with its source, its record and its numbers."""
    entry = search.entries[told.program]
    model = store.client.create_logged_model(
        store.experiment,
        name=f"{search.operator}-{entry.id[:8]}",
        source_run_id=run.info.run_id,
        model_type=MODEL_TYPE,
        params={"proposer": entry.proposer, "why": entry.why[:5000], "evaluation": str(entry.number)},
        tags=_tags(store, history, search, told),
    )
    metrics = list(_metrics(model, run, search, told, verdict))
    store.client.log_batch(run.info.run_id, metrics=metrics)
    with tempfile.TemporaryDirectory(prefix="kevolve-model-") as folder:
        suffix = language(str(entry.record["language"])).suffix
        source = history.source(entry)
        if source is not None:
            (Path(folder) / f"program{suffix}").write_text(source, encoding="utf-8")
        record = {"program": entry.record, "confirmed": told.judgement, "found": entry.speedup, "run": history.name}
        (Path(folder) / "record.json").write_text(json.dumps(record, indent=1) + "\n")
        store.client.log_model_artifacts(model.model_id, folder)
    return store.client.finalize_logged_model(model.model_id, "READY")


def _tags(store: Store, history: History, search: SearchHistory, told: Confirmation) -> dict[str, str]:
    entry, fitness = search.entries[told.program], told.verdict["fitness"]
    low, high = fitness["interval"]
    return {
        "kevolve.run": history.name,
        "kevolve.operator": search.operator,
        "kevolve.device": search.device,
        "kevolve.program": entry.id,
        "kevolve.parents": " ".join(entry.parents),
        "kevolve.island": str(entry.island),
        "kevolve.evaluation": str(entry.number),
        "kevolve.language": str(entry.record["language"]),
        "kevolve.speedup": f"{fitness['speedup']:.4f}",
        "kevolve.interval": f"{low:.4f} to {high:.4f}",
        "kevolve.baselines": store.config.judge.baselines,
        "kevolve.operator_version": str(told.judgement["key"]["operator_version"]),
        "kevolve.sandbox": str(told.judgement["sandbox"]),
    }


def _metrics(
    model: LoggedModel, run: Run, search: SearchHistory, told: Confirmation, verdict: Scored
) -> Iterator[Metric]:
    """The confirmation's numbers, for the search, the holdout and each workload.

    A run shows the number with the greatest step, so the champion's are at its last evaluation and all others at 0.
    """
    from mlflow.entities import Metric

    fitness, measurements = verdict.fitness, verdict.measurements
    values = {
        "confirmed_speedup": fitness.speedup,
        "confirmed_low": fitness.interval[0],
        "confirmed_high": fitness.interval[1],
        "confirmed_worst_speedup": fitness.worst,
        "confirmed_roofline": fitness.roofline,
    }
    holdout = [m for m in measurements if m.role == "holdout"]
    if holdout:
        values["confirmed_holdout_speedup"] = Fitness.of(holdout).speedup
    values |= {f"workload.{m.workload}": m.speedup for m in measurements}  # a slash would put their charts first
    last = max(entry.number for entry in search.entries.values())
    step = last if told.program == search.champion else 0
    for name, value in values.items():
        yield Metric(name, value, int(told.moment * 1000), step, model.model_id, run_id=run.info.run_id)


def _crown(
    store: Store, run: Run, search: SearchHistory, finding: Finding, told: Confirmation, model: LoggedModel
) -> None:
    """A new version of the registered model if the champion there is surely beaten, with the alias on it."""
    name, client = registered_name(search.operator, search.device), store.client
    tags = _tags_of(model)
    if not client.search_registered_models(f"name = '{name}'"):
        about = f"Champions of {search.operator} on {search.device}. The alias `{ALIAS}` is on the one to use."
        client.create_registered_model(name, description=about)
    holder = _holder(store, name)
    if holder is not None and holder.tags.get("kevolve.program") == tags["kevolve.program"]:
        return
    why = why_beaten(holder.tags if holder else None, tags)
    if why is None:
        assert holder is not None
        kept = f"version {holder.version} stays champion: {holder.tags.get('kevolve.interval')} is not surely beaten"
        store.tag(run, {"kevolve.registry": kept})
        return
    version = client.create_model_version(
        name,
        model.artifact_location,  # MLflow looks a models:/ address up in another store than the client's
        run.info.run_id,
        tags={**tags, "kevolve.why": why, "kevolve.model": model.model_id},
        description=_description(str(tags["kevolve.run"]), search, finding, why),
        await_creation_for=0,
        model_id=model.model_id,
    )
    client.set_registered_model_alias(name, ALIAS, version.version)
    store.tag(run, {"kevolve.registry": f"version {version.version} of {name}"})


def _description(run: str, search: SearchHistory, finding: Finding, why: str) -> str:
    """What stands on the version's page."""
    slower = f" Slower than the fastest baseline on: {finding.slower_told}." if finding.slower_on else ""
    return (
        f"**{times(finding.speedup)}** ({between(finding.interval)}) over the fastest baseline on each workload, "
        f"{times(finding.worst)} on the worst, {times(finding.holdout)} on sizes that the search never saw: "
        f"{finding.claim}.{slower} Champion because it is {why}.\n\n"
        f"`python -m kevolve.export {run} --operator {search.operator} --device {search.device} --out {PACKAGE}`"
        + (f"\n\n```\n{lines}\n```" if (lines := usage(finding)) else "")
    )


def why_beaten(holder: Mapping[str, str] | None, challenger: Mapping[str, str]) -> str | None:
    """Why the challenger takes the place of the holder, by their tags; None if it does not.

    Numbers of two runs do not quite compare, so an interval must lie above the other's. Where the operator itself has
    changed, or only one was measured against all baselines, the numbers do not compare at all.
    """
    if holder is None:
        return "the first one here"
    rivals = holder.get("kevolve.baselines", "all"), challenger["kevolve.baselines"]
    if rivals[0] != rivals[1]:
        return "measured over all baselines, which the one before was not" if rivals[1] == "all" else None
    if holder.get("kevolve.operator_version") != challenger["kevolve.operator_version"]:
        return "of the operator as it is now, which the one before was not"
    ours, theirs = _ends(challenger["kevolve.interval"]), _ends(holder["kevolve.interval"])
    return f"surely faster than the one before ({holder['kevolve.interval']})" if ours[0] > theirs[1] else None


def _ends(interval: str) -> tuple[float, float]:
    low, high = interval.split(" to ")
    return float(low), float(high)


def _holder(store: Store, name: str) -> ModelVersion | None:
    from mlflow.exceptions import MlflowException

    try:
        return store.client.get_model_version_by_alias(name, ALIAS)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):  # no alias yet
            return None
        raise


def _tags_of(model: LoggedModel) -> dict[str, Any]:
    return {name: value for name, value in model.tags.items() if name.startswith("kevolve.")}
