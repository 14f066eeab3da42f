"""MLflow: can its store be reached and written, does its schema fit this version, is the experiment there?"""

from __future__ import annotations

import importlib.util
import json
import re
import sqlite3
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from kevolve.config import Config
from kevolve.doctor.finding import Finding

SECONDS = 2.0


def tracking(config: Config) -> Iterator[Finding]:
    from kevolve.tracking.address import check_address, redact
    from kevolve.tracking.store import experiment_of

    uri, address = config.tracking.uri, redact(config.tracking.uri)
    if not config.tracking.enabled:
        yield Finding("mlflow", "off (tracking=none)")
        return
    try:
        check_address(uri, SECONDS)
    except Exception as error:  # any: each kind of store fails in its own way
        reason = (str(error).replace(uri, address) or type(error).__name__).partition("\n")[0]
        yield Finding("mlflow", f"{address}: {reason}", "runs go on without it: tracking.uri=... or tracking=none")
        return
    if uri.startswith("sqlite:"):
        yield from _database(Path(uri.removeprefix("sqlite:///")), address, experiment_of(config))
    elif uri.startswith("http"):
        yield _server(uri, address)
    else:
        yield Finding("mlflow", f"{address} answers")


def _database(path: Path, address: str, experiment: str) -> Iterator[Finding]:
    if not path.exists():
        yield Finding("mlflow", f"{address} can be written; the first run makes it")
        return
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=SECONDS)) as database:
        try:
            (schema,) = database.execute("SELECT version_num FROM alembic_version").fetchone()
            count = "(SELECT count(*) FROM runs r WHERE r.experiment_id = e.experiment_id)"
            query = f"SELECT lifecycle_stage, {count}, experiment_id"
            found = database.execute(f"{query} FROM experiments e WHERE name = ?", (experiment,)).fetchone()
        except (sqlite3.Error, TypeError) as error:
            yield Finding("mlflow", f"{address} is no database of MLflow ({error})", "tracking.uri=sqlite:///other.db")
            return
    latest = newest_schema()
    if latest and schema != latest:
        state = f"{address} has schema {schema}, and MLflow {version('mlflow')} wants {latest}"
        yield Finding("mlflow", state, f"with a copy at hand: mlflow db upgrade {address}")
    elif found and found[0] == "deleted":
        restore = f"MLFLOW_TRACKING_URI={address} mlflow experiments restore --experiment-id {found[2]}"
        mend = f"{restore}, or tracking.experiment=OTHER"
        yield Finding("mlflow", f"{address}: the experiment {experiment} was deleted", mend)
    else:
        runs = f"experiment {experiment} with {found[1]} runs" if found else f"no experiment {experiment} yet"
        yield Finding("mlflow", f"{address} can be written, schema up to date, {runs}")


def newest_schema() -> str:
    """The schema that the installed MLflow wants, read from its migrations: importing MLflow takes seconds."""
    spec = importlib.util.find_spec("mlflow")
    place = Path(spec.origin).parent / "store" / "db_migrations" / "versions" if spec and spec.origin else Path()
    revisions: dict[str, str] = {}
    for file in place.glob("*.py"):
        named = dict(re.findall(r'^(revision|down_revision) = ["\']?(\w+)', file.read_text(), flags=re.MULTILINE))
        revisions[named.get("revision", "")] = named.get("down_revision", "")
    heads = set(revisions) - set(revisions.values()) - {""}
    return heads.pop() if len(heads) == 1 else ""


def _server(uri: str, address: str) -> Finding:
    here = version("mlflow")
    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/version", timeout=SECONDS) as answer:
            there = answer.read(64).decode(errors="replace").strip()
    except (OSError, ValueError) as error:
        reason = str(error).replace(uri, address)
        return Finding("mlflow", f"{address} does not answer as MLflow ({reason})", "tracking.uri=... or tracking=none")
    differs = there.split(".")[:2] != here.split(".")[:2]
    return Finding(
        "mlflow", f"{address} answers, MLflow {json.dumps(there)} there and {here} here",
        f"the same version on both sides: pip install mlflow=={there}" if differs else "",
    )  # fmt: skip
