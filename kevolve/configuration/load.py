"""conf/ plus the command line, composed by Hydra and checked against the schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from kevolve.config import Config
from kevolve.configuration.overrides import Overrides, parse
from kevolve.configuration.schema import keys, sections, shown
from kevolve.configuration.tree import find, folders
from kevolve.configuration.validate import check, flatten, operator_in
from kevolve.errors import UsageError, nearest


def load_config(arguments: Sequence[str], config_dir: str | None = None) -> Config:
    """The configuration that `arguments` (`+experiment=NAME`, `group=option`, `key=value`) ask for.

    `config_dir` is a user's own conf tree, searched beside the project's. With `resume=true name=RUN` the
    run's stored configuration is the base, and only what `arguments` name differs from it. Raises UsageError
    with every problem that was found.
    """
    searched = folders(config_dir)
    overrides = parse(arguments, searched)
    flat = _composed(overrides, searched)
    if "experiment" in overrides.groups:
        flat["experiment"] = overrides.groups["experiment"]
    origin = _Origin(overrides, searched)
    if flat.get("resume") is True:
        flat = _resumed(flat, overrides)
    elif isinstance(flat.get("operator_file"), str) and "operators" not in overrides.values:
        flat["operators"] = [operator_in(flat["operator_file"])]
    problems = overrides.problems + check(flat, lambda name: origin.of(name, flat.get(name)))
    if problems:
        raise UsageError(_together(problems))
    return build(flat)


def build(flat: Mapping[str, Any]) -> Config:
    """A Config from checked dotted keys; those that are absent keep their defaults."""
    config = Config()
    for name, value in flat.items():
        section, _, leaf = name.rpartition(".")
        kind = keys()[name].kind
        typed = float(value) if kind is float and value is not None else value
        setattr(getattr(config, section) if section else config, leaf, typed)
    return config


def _composed(overrides: Overrides, searched: Sequence[Path]) -> dict[str, Any]:
    """Hydra's composition of the chosen groups, flattened. Values are set afterwards, as they are checked."""
    chosen = [f"{'+' * (group == 'experiment')}{group}={option}" for group, option in overrides.groups.items()]
    others = ",".join(f"'file://{folder}'" for folder in searched[1:])
    if others:
        chosen.append(f"hydra.searchpath=[{others}]")
    try:
        with initialize_config_dir(str(searched[0]), version_base="1.3"):
            tree = compose("config", overrides=chosen)
        for name, value in overrides.values.items():
            OmegaConf.update(tree, name, value, merge=False, force_add=True)
        plain = OmegaConf.to_container(tree, resolve=True)
    except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
        first = str(error).splitlines()[0]
        raise UsageError(_together([*overrides.problems, f"conf/ cannot be composed: {first}"])) from error
    assert isinstance(plain, dict)
    return flatten({str(name): value for name, value in plain.items()})


def _resumed(flat: dict[str, Any], overrides: Overrides) -> dict[str, Any]:
    """The stored configuration of the run, with what the command line names put over it."""
    runs = Path(str(flat.get("runs_dir")))
    here = sorted(file.parent.name for file in runs.glob("*/events.jsonl"))
    name, listed = flat.get("name"), ", ".join(here) or "none"
    if name is None:
        raise UsageError(f"resume=true: which run? Type name=RUN. Runs in {runs}: {listed}.")
    if name not in here:
        raise UsageError(f"resume=true: {runs}/{name} is not a run.{nearest(str(name), here)} Runs here: {listed}.")
    file = runs / str(name) / "config.yaml"
    if not file.exists():  # stopped before it was written: nothing of the search is lost
        return flat
    stored = flatten(yaml.safe_load(file.read_text(encoding="utf-8")))
    asked = overrides.groups.get("experiment", stored.get("experiment"))
    if asked != stored.get("experiment"):
        raise UsageError(f"+experiment={asked}: {name} is a run of {stored.get('experiment')}. Leave it out.")
    groups = set(overrides.groups) & set(sections())
    named = {key for key in flat if key in overrides.values or key.partition(".")[0] in groups}
    return stored | {key: flat[key] for key in named}


class _Origin:
    """Where a key's value was written: complaints show the place that has to change."""

    def __init__(self, overrides: Overrides, searched: Sequence[Path]):
        self.values = overrides.values
        files = [(group, find(group, option, searched)) for group, option in overrides.groups.items()]
        self.files = sorted(files, key=lambda pair: pair[0] != "experiment")  # an experiment is applied last

    def of(self, name: str, value: Any) -> str:
        typed = f"{name}={shown(value)}"
        if name in self.values:
            return typed
        section, _, leaf = name.rpartition(".")
        for group, file in self.files:
            written = yaml.safe_load(file.read_text(encoding="utf-8")) if file else None
            if not isinstance(written, dict):
                continue
            if (group == "experiment" and name in flatten(written)) or (group == section and leaf in written):
                return f"{file}: {typed}"
        return typed


def _together(problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return "\n  ".join([f"{len(problems)} things are wrong in the configuration:", *problems])
