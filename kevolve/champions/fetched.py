"""Champions of an MLflow registry with their programs, as if they lay in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kevolve.champions.champion import Champion
from kevolve.champions.registered import Registered, registered_champions
from kevolve.errors import UsageError
from kevolve.languages.registry import language
from kevolve.verdict import Fitness


def fetched_champions(uri: str, folder: Path) -> Iterator[Champion]:
    """The registry's champions, their programs copied into `folder`. UsageError if one cannot be read."""
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).is_file():
        raise UsageError(f"--registry {uri}: cannot be read, there is no such file. Runs make mlflow.db by default.")
    for entry in registered_champions(uri):
        if entry.tag("program"):
            yield _champion(entry, uri, folder / entry.name)


def _champion(entry: Registered, uri: str, folder: Path) -> Champion:
    about = {
        "id": entry.tag("program"),
        "language": entry.tag("language"),
        "parents": entry.tag("parents").split(),
        "origin": {},
    }
    folder.mkdir(parents=True)
    (folder / f"program{language(entry.tag('language')).suffix}").write_bytes(_program(entry, uri).read_bytes())
    low, high = map(float, entry.tag("interval").split(" to "))
    fitness = Fitness(float(entry.tag("speedup")), float("nan"), (low, high), float("nan"))
    record = {"program": about, "registered": {"name": entry.name, "version": entry.version}}
    run = entry.tag("run") or "registry"
    return Champion(entry.tag("operator"), entry.tag("device"), run, folder, False, record, fitness, None)


def _program(entry: Registered, uri: str) -> Path:
    """A copy of the champion's text. UsageError if it is not among the version's files."""
    from mlflow import MlflowClient
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    try:
        source = MlflowClient(uri, uri).get_model_version(entry.name, entry.version).source
        texts = sorted(Path(download_artifacts(artifact_uri=source, tracking_uri=uri)).rglob("program.*"))
    except (MlflowException, OSError) as error:
        raise UsageError(f"{entry.name} version {entry.version}: its files cannot be read ({error}).") from None
    if not texts:
        raise UsageError(f"{entry.name} version {entry.version}: no program among its files, {source}.")
    return texts[0]
