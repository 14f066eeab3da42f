"""The operators that exist: one file of conf/operator/ each, read strictly, and a user's own ones (`custom/`).

Such a file names its `implementation` (`module:Class`) and, under each role, its workloads by name. A
workload is written flat, the operator's sizes beside the other fields of `Workload`; `defaults` under a role
fills in what its workloads leave out. Whatever is not known here is an error that says what is.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kevolve.errors import UsageError, nearest
from kevolve.operators.custom.given import given, load_given
from kevolve.paths import conf_dir
from kevolve.verdict import CACHES, ROLES, Role

if TYPE_CHECKING:
    from kevolve.operators.operator import Operator, Workload


OWN_SECTIONS = ("cuda",)  # devices that a file may have workloads for
_AS_ON = {"rocm": "cuda", "mtia": "cuda"}  # accelerators of the same order of size


def operator_names() -> list[str]:
    """The operators of conf/operator/ and those that this process has been given, sorted."""
    own = {path.stem for path in (conf_dir() / "operator").glob("*.yaml")}
    return sorted(own | {definition.name for definition in given()})


def load_operator(name: str, device: str = "cpu") -> Operator:
    """The operator with its workloads on the device called `device`. UsageError names the file and the key at fault.

    A device that a file has a section for has search and holdout workloads of its own, and perhaps further
    adversarial ones: sizes that suit two cores say nothing of a GPU.
    """
    device = _AS_ON.get(device, device)
    custom = load_given(name)
    if custom is not None:
        return custom
    path = conf_dir() / "operator" / f"{name}.yaml"
    if not path.is_file():
        raise UsageError(
            f"no operator is called {name}: {path} does not exist."
            f"{nearest(name, operator_names())} Operators here: {_listed(operator_names())}."
        )
    sheet = _Sheet(path)
    content = _read(sheet)
    implementation = _implementation(sheet, content)
    own = sheet.mapping(device, content.get(device) or {}) if device in OWN_SECTIONS else {}
    for key in own:
        sheet.known(device, "role", key, ROLES)
    adversarial = {
        **sheet.mapping("adversarial", content["adversarial"]),
        **sheet.mapping(device, own.get("adversarial") or {}),
    }
    own_content = {**content, **own, "adversarial": adversarial}
    return implementation(_workloads(sheet, own_content, implementation.sizes, device))


@dataclass(frozen=True)
class _Sheet:
    """One operator's file, to point at in errors."""

    path: Path

    def error(self, where: str, what: str) -> UsageError:
        return UsageError(f"{self.path}: {where}: {what}")

    def known(self, where: str, kind: str, name: Any, choices: Iterable[str]) -> None:
        """Raise unless `name` is one of `choices`."""
        choices = list(choices)
        if name not in choices:
            raise self.error(
                where, f"no {kind} is called {name}.{nearest(str(name), choices)} It may be: {_listed(choices)}."
            )

    def mapping(self, where: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.error(where, f"expected keys with values, got {value!r}.")
        return {str(key): item for key, item in value.items()}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _read(sheet: _Sheet) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        content = sheet.mapping("the file", OmegaConf.to_container(OmegaConf.load(sheet.path), resolve=True))
    except (YAMLError, OmegaConfBaseException) as error:  # a name given twice lands here too
        raise sheet.error("not valid", " ".join(str(error).split())) from error
    for key in content:
        sheet.known("the file", "key", key, ["implementation", *ROLES, *OWN_SECTIONS])
    for key in ("implementation", *ROLES):
        if not content.get(key):
            raise sheet.error(key, "missing. An operator needs an implementation and workloads of every role.")
    return content


def _implementation(sheet: _Sheet, content: Mapping[str, Any]) -> type[Operator]:
    from kevolve.operators.operator import Operator

    text = str(content["implementation"])
    module_name, _, class_name = text.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise sheet.error("implementation", f"{text} cannot be imported ({error}). Write module:Class.") from error
    if not (isinstance(found, type) and issubclass(found, Operator)):
        raise sheet.error("implementation", f"{text} is not a subclass of kevolve.operators.operator:Operator.")
    if found.name != sheet.path.stem:
        raise sheet.error("implementation", f"{text} is the operator {found.name}: name the file {found.name}.yaml.")
    return found


def _workloads(sheet: _Sheet, content: Mapping[str, Any], sizes: tuple[str, ...], device: str) -> tuple[Workload, ...]:
    workloads: dict[str, Workload] = {}
    for role in ROLES:
        entries = sheet.mapping(role, content[role])
        defaults = sheet.mapping(f"{role}.defaults", entries.pop("defaults", {}))
        for name, entry in entries.items():
            where = f"{role}.{name}"
            if name in workloads:
                raise sheet.error(where, f"{name} is already a {workloads[name].role} workload. Give it another name.")
            workloads[name] = _workload(sheet, where, role, {**defaults, **sheet.mapping(where, entry)}, sizes, device)
    return tuple(workloads.values())


def _workload(
    sheet: _Sheet, where: str, role: Role, entry: dict[str, Any], sizes: tuple[str, ...], device: str
) -> Workload:
    from kevolve.operators.inputs import DEVICE_DTYPES, DTYPES, INDEX_DTYPES, LAYOUTS, LENGTHS, VALUES
    from kevolve.operators.operator import Workload

    given = [field.name for field in fields(Workload) if field.name not in ("name", "role", "sizes")]
    for key in entry:
        sheet.known(where, "field", key, [*sizes, *given])
    for key in sizes:
        if type(entry.get(key)) is not int or entry[key] < 0:
            raise sheet.error(f"{where}.{key}", f"expected an integer of at least 0, got {entry.get(key)!r}.")
    weight = entry.get("weight", 1.0)
    if type(weight) not in (int, float) or not 0 < weight < float("inf"):
        raise sheet.error(f"{where}.weight", f"expected a number greater than 0, got {weight!r}.")
    tables: dict[str, Iterable[str]] = {
        "dtype": DEVICE_DTYPES if device in OWN_SECTIONS else DTYPES,
        "index_dtype": INDEX_DTYPES,
        "lengths": LENGTHS,
        "values": VALUES,
        "layout": LAYOUTS,
        "cache": CACHES,
    }
    for key, choices in tables.items():
        if key in entry:
            sheet.known(
                f"{where}.{key}",
                {"lengths": "length regime", "values": "value regime"}.get(key, key),
                entry[key],
                choices,
            )
    return Workload(
        name=where.partition(".")[2],
        role=role,
        sizes={key: entry[key] for key in sizes},
        **{key: entry[key] for key in entry if key not in sizes},
    )
