"""Registered: the champions of an MLflow registry, as if they lay in a folder."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kevolve.champions.champion import Champion
from kevolve.errors import UsageError
from kevolve.languages.registry import language
from kevolve.verdict import Fitness

if TYPE_CHECKING:
    from mlflow import MlflowClient

ALIAS = "champion"
_SECONDS = 3  # that a server may take to answer at first


def registered_champions(uri: str, folder: Path) -> Iterator[Champion]:
    """Those with the alias `champion`, their programs copied into `folder`. UsageError if the registry is not there."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    from kevolve.tracking.address import check_address, redact

    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).is_file():
        raise UsageError(f"--registry {uri}: cannot be read, there is no such file. Runs make mlflow.db by default.")
    try:
        check_address(uri, _SECONDS)
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        models = client.search_registered_models()
        for model in models:
            version = model.aliases.get(ALIAS)
            found = client.get_model_version(model.name, version) if version is not None else None
            if found is not None and "kevolve.program" in found.tags:
                yield _champion(client, found, folder / model.name)
    except (MlflowException, OSError, sqlite3.Error, ValueError) as error:
        raise UsageError(f"--registry {redact(uri)}: cannot be read ({error}).") from None


def _champion(client: MlflowClient, version: Any, folder: Path) -> Champion:
    """The champion that a model version's tags tell of. UsageError if its program is not among its files."""
    tags = version.tags
    about = {
        "id": tags["kevolve.program"],
        "language": tags["kevolve.language"],
        "parents": tags.get("kevolve.parents", "").split(),
        "origin": {},
    }
    suffix = language(about["language"]).suffix
    texts = _files(client, version)
    if not texts:
        raise UsageError(f"{version.name} version {version.version}: no program among its files, {version.source}.")
    folder.mkdir(parents=True)
    (folder / f"program{suffix}").write_bytes(texts[0].read_bytes())
    low, high = map(float, tags["kevolve.interval"].split(" to "))
    speedup = float(tags["kevolve.speedup"])
    fitness = Fitness(speedup, float("nan"), (low, high), float("nan"))
    record = {"program": about, "registered": {"name": version.name, "version": version.version}}
    operator, device = tags["kevolve.operator"], tags["kevolve.device"]
    return Champion(operator, device, tags.get("kevolve.run", "registry"), folder, False, record, fitness, None)


def _files(client: MlflowClient, version: Any) -> list[Path]:
    from mlflow.artifacts import download_artifacts

    place = download_artifacts(artifact_uri=version.source, tracking_uri=client.tracking_uri)
    return sorted(Path(place).rglob("program.*"))
