"""The champions that MLflow's registry holds: whatever version of a `kevolve.*` model carries the alias."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kevolve.errors import UsageError
from kevolve.tracking.address import check_address, redact

SECONDS = 3.0  # for the store to answer
PREFIX = "kevolve."


@dataclass(frozen=True)
class Registered:
    """One champion of the registry. `interval` is `low to high`, as its tag says."""

    name: str
    version: str
    tags: Mapping[str, str]

    def tag(self, name: str) -> str:
        return self.tags.get(f"kevolve.{name}", "")


def registered_champions(uri: str) -> Iterator[Registered]:
    """The registry's champions by name. UsageError if the store at `uri` cannot be read."""
    try:
        check_address(uri, SECONDS)
        from mlflow import MlflowClient

        client = MlflowClient(uri, uri)
        for model in client.search_registered_models(f"name LIKE '{PREFIX}%'"):
            for alias, version in model.aliases.items():
                if alias == "champion":
                    tags = client.get_model_version(model.name, str(version)).tags
                    yield Registered(model.name, str(version), tags)
    except Exception as error:  # any: each kind of store fails in its own way
        address = redact(uri)
        reason = (str(error).replace(uri, address).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(f"--registry {address}: cannot be read ({reason[:200]}).") from None
