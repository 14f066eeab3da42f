"""Bring: how a user's own operator comes into a run, and stays in it.

A new run takes it from the file, finds out about it, screens it, and keeps a copy in the run's folder. A resumed run
goes on with that copy, whatever has become of the file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kevolve.errors import UsageError
from kevolve.operators.custom.definition import Definition, differs, kept, kept_file, read_definition
from kevolve.operators.custom.given import give, given, load_given

if TYPE_CHECKING:
    from kevolve.config import Config
    from kevolve.operators.operator import Argument

_C_TYPES = {"value": "VALUE", "int32": "int32_t", "int64": "int64_t", "uint8": "uint8_t", "bool": "bool"}


def bring(config: Config) -> Definition | None:
    """Make the run's own operator known in this process; None if it has none. Nothing of it is run yet."""
    folder = run_folder(config)
    name = config.operators[0]
    if config.resume and kept_file(folder) is not None:
        definition = kept(folder, name)
    elif config.operator_file is not None:
        definition = read_definition(Path(config.operator_file), name)
    else:
        definition = next(iter(given([name])), None)  # from a library call
    if definition is not None:
        give([definition])
        if config.device.name == "auto" and definition.language == "cpp":
            config.device.name = "cpu"  # which its starting program is for
    return definition


def ready(definition: Definition) -> Definition:
    """Find out about the operator, screen it, and see that it has a starting program. Raises UsageError."""
    from kevolve.operators.custom.screening import screen_operator

    operator = load_given(definition.name)
    assert operator is not None
    screen_operator(operator)
    program = definition.program if definition.program is not None else _lowered(definition)
    found = replace(definition, facts=operator.facts, program=program)
    give([found])
    return found


def notice(config: Config) -> str | None:
    """What a user should know who resumes a run after editing its operator's file."""
    file = kept_file(run_folder(config)) if config.resume else None
    copy = kept(file.parent, config.operators[0]) if file is not None else None
    if config.operator_file is None or copy is None or not differs(Path(config.operator_file), copy):
        return None
    return f"{config.operator_file} has changed since; the run goes on with its own copy, {file}"


def run_folder(config: Config) -> Path:
    """Where the run is, or will be."""
    return Path(config.runs_dir) / str(config.name)


def _lowered(definition: Definition) -> str:
    """A plain C++ program derived from the reference. UsageError with what to write if it cannot be derived."""
    from kevolve.languages.cpp.lowering import Unsupported, lower

    operator = load_given(definition.name)
    assert operator is not None
    example = operator.example()
    try:
        source: str = lower(operator.parts.reference, operator.arguments, operator.name, example)
    except Unsupported as error:
        beside = Path(definition.where).with_suffix(".cpp").name
        shown = skeleton(operator.name, operator.arguments)
        where = f"save it as {beside} beside the file" if definition.where.endswith(".py") else "give it as program=..."
        raise UsageError(
            f"{definition.where}: no starting program can be derived from reference: {error.reason}\n"
            f"  Write the plainest right program there is, and {where}:\n\n{shown}"
        ) from None
    return source


def skeleton(name: str, arguments: tuple[Argument, ...]) -> str:
    """The C++ function to fill in."""
    shown = ", ".join(_declared(argument) for argument in arguments)
    shapes = [
        f"// {argument.name}: [{', '.join(argument.shape)}]" for argument in arguments if argument.kind != "scalar"
    ]
    head = f'extern "C" void {name}({shown}) {{'
    return "\n".join(['#include "kevolve.h"', "", *shapes, head, "}", ""])


def _declared(argument: Argument) -> str:
    if argument.kind == "scalar":
        return f"int64_t {argument.name}"
    const = "const " if argument.kind == "input" else ""
    return f"{const}{_C_TYPES[argument.dtype]} *{argument.name}"
