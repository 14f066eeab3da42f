"""Is a composed configuration right? Types, limits and names, all complaints at once."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kevolve.cluster.nodes import selector
from kevolve.configuration.overrides import unknown_key
from kevolve.configuration.schema import Key, keys, sections, shown
from kevolve.errors import UsageError, nearest
from kevolve.judge.landscape import landscape_names
from kevolve.propose.llm.checking import problems as llm_problems

Where = Callable[[str], str]  # a key's name -> how to show the place that set it

KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", list: "a list of names"}
MISSING_VALUE = "???"  # OmegaConf's mark for a value that somebody has to give


def flatten(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted name -> value; sections of the schema are opened, anything else is a value."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if name in sections() and isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": entry for inner, entry in value.items()}
        else:
            flat[str(name)] = value
    return flat


def check(flat: Mapping[str, Any], where: Where) -> list[str]:
    """Every problem of a flattened configuration. `where` names a key's place in complaints."""
    found = [(name, unknown_key(name)) for name in flat if name not in keys()]
    values = {name: flat.get(name, key.default) for name, key in keys().items()}
    for name, key in keys().items():
        if complaint := _check_value(key, values[name]):
            found.append((name, complaint))
            values[name] = key.default  # so that the checks below see values of the right type
    found += _relations(values) + _names(values)
    return [f"{where(name)}: {complaint}" for name, complaint in found]


def is_a(kind: type, value: Any) -> bool:
    """Is `value` of the schema's type? A whole number is a number; true and false are not."""
    if kind is list:
        return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind)


def _check_value(key: Key, value: Any) -> str | None:
    if value == MISSING_VALUE:
        return "needs a value."
    if value is None and key.optional:
        return None
    if not is_a(key.kind, value):
        instead = f" Type {key.name}={shown(key.default)}, for example." if key.default is not None else ""
        return f"must be {KINDS[key.kind]}.{instead}"
    least, most, above = (key.limits.get(limit) for limit in ("least", "most", "above"))
    if (least is not None and value < least) or (most is not None and value > most):
        return f"must be at least {least}." if most is None else f"must be from {least} to {most}."
    if above is not None and value <= above:
        return f"must be more than {above}."
    choices = key.limits.get("choices", ())
    if choices and value not in choices:
        allowed = [*choices, *(["null"] if key.optional else [])]
        return f"must be {' or '.join(allowed)}.{nearest(str(value), choices)}"
    return None


def _relations(flat: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Values that are wrong only beside others."""
    found = []
    operators = flat["operators"]
    twice = sorted({name for name in operators if operators.count(name) > 1})
    if twice:
        found.append(("operators", f"names {', '.join(twice)} twice."))
    if not operators:
        found.append(("operators", "names no operator."))
    if flat["policy.crossover_rate"] + flat["policy.draft_rate"] > 1:
        found.append(("policy.crossover_rate", "with policy.draft_rate it is more than 1; together they are shares."))
    if flat["judge.landscape"] and flat["proposer.name"] == "genetic":
        found.append(("proposer", "a landscape knows only the points of its grid. Type proposer=grid."))
    if flat["policy.migrants"] > flat["policy.population"]:
        found.append(("policy.migrants", f"an island keeps only {flat['policy.population']} (policy.population)."))
    name = flat["name"]
    if name is not None and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
        found.append(("name", "it names a folder: letters, digits, dot, dash and underscore only."))
    found += llm_problems(flat)
    try:
        selector(flat["cluster.labels"])
    except UsageError as error:
        found.append(("cluster.labels", str(error)))
    return found


def _names(flat: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names that must be registered. The registries are imported here because they are not always needed."""
    found = []
    own = _own_operator(flat)
    known = [*([own] if own else []), *registered("operators", "operator_names")]
    if flat["judge.landscape"]:
        known = landscape_names(flat["judge.landscape"])
    if flat["operator_file"] and flat["operators"] != [own]:
        found.append(("operators", f"operator_file={flat['operator_file']} holds {own} and no other. Leave one out."))
        return found
    for operator in flat["operators"]:
        if operator not in known:
            listed = ", ".join(known)
            found.append(("operators", f"no operator is called {operator}.{nearest(operator, known)} Here: {listed}."))
    spoken = registered("languages", "language_names")
    for language in flat["languages"]:
        if language not in spoken:
            listed = ", ".join(spoken)
            found.append(("languages", f"no language is called {language}.{nearest(language, spoken)} Here: {listed}."))
    for key, room, listing in (
        ("device.name", "devices", "device_names"),
        ("proposer.name", "propose", "proposer_names"),
        ("policy.name", "search.policies", "policy_names"),
    ):
        choices = [*(["auto"] if key == "device.name" else []), *registered(room, listing)]
        if flat[key] not in choices:
            what = key.partition(".")[0]
            listed = ", ".join(choices)
            found.append((key, f"no {what} is called {flat[key]}.{nearest(flat[key], choices)} Here: {listed}."))
    return found


def operator_in(file: str) -> str:
    """The name of the operator in a user's own file. UsageError if it cannot be read or parsed."""
    from kevolve.operators.custom.definition import read_definition

    return read_definition(Path(file)).name


def _own_operator(flat: Mapping[str, Any]) -> str | None:
    """The user's own operator of the run; a resumed run has a copy of its file."""
    from kevolve.operators.custom.definition import kept_file

    if flat["resume"] and kept_file(Path(flat["runs_dir"]) / str(flat["name"])) is not None:
        return str(flat["operators"][0]) if flat["operators"] else None
    return operator_in(flat["operator_file"]) if flat["operator_file"] else None


def registered(room: str, listing: str) -> Sequence[str]:
    """The names in a room's registry."""
    names: Sequence[str] = getattr(importlib.import_module(f"kevolve.{room}.registry"), listing)()
    return names
