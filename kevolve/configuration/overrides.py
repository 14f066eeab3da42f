"""What the command line says: `group=option`, `key=value`, `+experiment=NAME`, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from kevolve.configuration.schema import keys, keys_of, sections, shown
from kevolve.configuration.tree import GROUPS, options
from kevolve.errors import nearest


@dataclass
class Overrides:
    """`groups` chooses options, `values` sets keys; `problems` are complaints, each about one argument."""

    groups: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def parse(arguments: Sequence[str], searched: Sequence[Path]) -> Overrides:
    """Sort `arguments` into groups and values; a later argument wins over an earlier one."""
    found = Overrides()
    parser = OverridesParser.create()
    for argument in arguments:
        _place(argument, parser, searched, found)
    return found


def _place(argument: str, parser: OverridesParser, searched: Sequence[Path], found: Overrides) -> None:
    sign, name, text = _split(argument)
    if sign == "~" and (name in GROUPS or name in keys()):
        found.problems.append(
            f"{argument}: a key cannot be taken away. Leave it out for its default, or type {name}=VALUE."
        )
    elif "=" not in argument or not name:
        found.problems.append(f"{argument}: not of the form key=value.{_hint_for_bare(argument, searched)}")
    elif name in GROUPS:
        _choose(name, text, argument, searched, found)
    elif name in keys():
        _set(name, text, argument, parser, found)
    else:
        found.problems.append(f"{argument}: {unknown_key(name)}")


def _split(argument: str) -> tuple[str, str, str]:
    """`++a.b=c` as (`++`, `a.b`, `c`). The plus signs of Hydra change nothing: every key is known."""
    left, _, text = argument.partition("=")
    name = left.lstrip("+~")
    return left[: len(left) - len(name)], name.strip(), text


def _choose(group: str, text: str, argument: str, searched: Sequence[Path], found: Overrides) -> None:
    option = text.strip().strip("'\"")
    existing = options(group, searched)
    if option in existing:
        found.groups[group] = option
        return
    problem = f"{argument}: conf/{group}/{option or 'NAME'}.yaml does not exist.{nearest(option, existing)}"
    found.problems.append(f"{problem} {_here(group)}: {', '.join(existing) or 'none'}.")


def _set(name: str, text: str, argument: str, parser: OverridesParser, found: Overrides) -> None:
    key = keys()[name]
    try:
        override = parser.parse_override(f"{name}={text}")
    except HydraException as error:
        if key.kind is str:  # an address may hold characters that Hydra's grammar does not know
            found.values[name] = text
            return
        reason = str(error).splitlines()[0]
        found.problems.append(f"{argument}: cannot be read ({reason}). {_form(name)}")
        return
    if override.is_sweep_override():
        found.problems.append(f"{argument}: takes one value, not a sweep. {_form(name)}")
        return
    value = override.value()
    is_other_scalar = isinstance(value, bool | int | float)
    found.values[name] = text.strip() if key.kind is str and is_other_scalar else value


def unknown_key(name: str) -> str:
    """Why `name` is refused: the nearest key, and what exists where it was looked for."""
    if name in sections():
        return f"{name} is a section. Its keys: {', '.join(keys_of(name))}."
    section = name.rpartition(".")[0]
    known = [*keys(), *GROUPS]
    if section in sections():
        exists = f"Keys of {section}: {', '.join(key.rpartition('.')[2] for key in keys_of(section))}."
    else:
        exists = f"Keys: {', '.join(keys_of(''))}; sections: {', '.join(sections())}."
    return f"there is no key {name}.{nearest(name, known)} {exists}"


def _hint_for_bare(argument: str, searched: Sequence[Path]) -> str:
    """`jagged_ops` alone is an experiment whose plus sign was forgotten; anything else is told the form."""
    if argument in options("experiment", searched):
        return f" Type +experiment={argument}."
    return nearest(argument, [f"{name}=VALUE" for name in keys()]) or " Type --help for the keys."


def _form(name: str) -> str:
    """How to type the key right."""
    key = keys()[name]
    if key.kind is list:
        return f"Type {name}={shown(key.default)} (no blanks, or in quotes)."
    return f"Type {name}={'VALUE' if key.default is None else shown(key.default)}, for example."


def _here(group: str) -> str:
    return {"policy": "Policies here", "tracking": "Here"}.get(group, f"{group.capitalize()}s here")
