"""The schema as a flat table: dotted key -> its type, default, limits and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, fields, is_dataclass
from functools import cache, reduce
from types import NoneType
from typing import Any, get_args, get_type_hints

import yaml

from kevolve.config import Config


@dataclass(frozen=True)
class Key:
    """One key: `kind` is the type of its value (`list` means a list of names), `optional` that null is allowed."""

    name: str
    kind: type
    optional: bool
    default: Any
    limits: Mapping[str, Any]

    @property
    def meaning(self) -> str:
        return str(self.limits["meaning"])


@cache
def keys() -> Mapping[str, Key]:
    """Every key of the schema by its dotted name, in the order of the schema."""
    return dict(_walk(Config, ""))


def sections() -> list[str]:
    """`budget`, `device`, ...: the first parts of dotted keys."""
    return list(dict.fromkeys(name.partition(".")[0] for name in keys() if "." in name))


def keys_of(section: str) -> list[str]:
    """The full names of the keys of a section; `""` for those at the top."""
    return [name for name in keys() if name.rpartition(".")[0] == section]


def shown(value: Any) -> str:
    """A value as one types it on the command line."""
    if isinstance(value, list):
        return f"[{','.join(map(shown, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def flat_values(config: Config) -> dict[str, Any]:
    """Dotted name -> value."""
    return {name: reduce(getattr, name.split("."), config) for name in keys()}


def as_yaml(config: Config) -> str:
    """The whole configuration as a file that `conf/` or a run folder could hold."""
    return str(yaml.safe_dump(asdict(config), sort_keys=False))


def _walk(schema: type, prefix: str) -> list[tuple[str, Key]]:
    hints = get_type_hints(schema)
    found: list[tuple[str, Key]] = []
    for entry in fields(schema):
        hint, name = hints[entry.name], prefix + entry.name
        if is_dataclass(hint) and isinstance(hint, type):
            found += _walk(hint, name + ".")
        else:
            kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
            kind = list if hint == list[str] else kinds[0]
            optional = NoneType in get_args(hint)
            found.append((name, Key(name, kind, optional, _default(entry), entry.metadata)))
    return found


def _default(entry: Field[Any]) -> Any:
    return entry.default_factory() if entry.default_factory is not MISSING else entry.default
