"""Describe: what the package says of its champion, in `provenance.json` for programs and in the README for people."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import kevolve
from kevolve.champions.champion import Champion
from kevolve.champions.dispatch import options
from kevolve.export.choosing import family
from kevolve.export.forms import EAGER, Forms
from kevolve.export.proven import Proven
from kevolve.export.routes import Routes
from kevolve.operators.custom.operator import CustomOperator
from kevolve.operators.interface import Interface
from kevolve.operators.operator import Operator
from kevolve.verdict import Measurement

_OWN = "Apache-2.0 for what is kevolve's; definition.py and what was derived from it are yours"

_BUILT = {
    "cpp": "The program is compiled by g++ at its first use and\n"
    "kept in the user's cache. It was measured with `OMP_WAIT_POLICY=PASSIVE` and a thread for each core: where\n"
    "a machine has other work, start Python with that, or OpenMP's threads (PyTorch's, too) spin while they wait.",
    "triton": "Triton compiles the program when it is first launched.",
}


def provenance(champion: Champion, operator: Operator, proven: Proven, forms: Forms, routes: Routes) -> dict[str, Any]:
    """Ids, parents, machine, numbers and licence; the record itself is kept whole."""
    return {
        "operator": champion.operator,
        "device": champion.device,
        "run": champion.run,
        "program": champion.program,
        "parents": champion.record["program"]["parents"],
        "measured": champion.measured.isoformat() if champion.measured else None,
        "exported": datetime.now(UTC).isoformat(timespec="seconds"),
        "kevolve": kevolve.__version__,
        "operator_version": {"judged": judged_version(champion), "exported": operator.version},
        "proven": asdict(proven),
        "fallback": asdict(forms),
        "dispatch": asdict(routes.rule),
        "programs": {program.id: list(program.parents) for program in routes.programs.values()},
        "licence": _licence(operator),
        "record": champion.record,
    }


def judged_version(champion: Champion) -> str:
    """The version of the operator that the champion was judged by last."""
    latest = champion.record.get("kept", {}).get("champion") or champion.record["confirmed"]
    return str(latest.get("operator_version") or latest.get("key", {}).get("operator_version", ""))


def readme_texts(
    champion: Champion,
    interface: Interface,
    proven: Proven,
    forms: Forms,
    measured: Iterable[Measurement],
    operator: Operator,
    routes: Routes,
) -> dict[str, str]:
    """What the README, the package's metadata and its docstring ask for by `$name`."""
    fitness = champion.fitness
    low, high = fitness.interval
    is_cpp = champion.record["program"]["language"] == "cpp"
    day = f"{champion.measured:%Y-%m-%d}" if champion.measured else "an unknown day"
    origin = champion.record["program"]["origin"]
    return {
        "distribution": f"evolved-{champion.operator.replace('_', '-')}-{family(champion)}",
        "version": f"{champion.measured or datetime.now(UTC):%Y.%m.%d}+{champion.program[:8]}",
        "summary": f"{champion.operator} for {champion.device}, evolved by kevolve",
        "description": _description(operator, interface),
        "arguments": _arguments(interface),
        "needs": "" if is_cpp else " with Triton",
        "measured": f"On {champion.device}, {day}: {fitness.speedup:.2f}x ({low:.2f} to {high:.2f}) over the fastest "
        f"baseline of each search workload, {fitness.worst:.2f}x on the worst.",
        "rows": "\n".join(_row(measurement, routes) for measurement in measured),
        "dispatch_in_words": _dispatch(routes),
        "proven_in_words": _proven(champion, proven),
        "fallback_in_words": _fallback(forms),
        "how_built": _BUILT[champion.record["program"]["language"]],
        "gradients_in_words": _gradients(forms),
        "program": champion.program,
        "run": champion.run,
        "origin": f"found by kevolve's {origin['proposer']} proposer" if "proposer" in origin else "as it was given",
        "parents": ", ".join(f"`{parent}`" for parent in champion.record["program"]["parents"]) or "none",
        "licence": _licence(operator),
        "licence_in_words": f"Licence: {_licence(operator)} (see LICENSE). No warranty: a judge's word is evidence, "
        "not proof.",
    }


def _description(operator: Operator, interface: Interface) -> str:
    """What the operator computes, as its own docstring says it."""
    if isinstance(operator, CustomOperator):
        said = inspect.getdoc(operator.parts.reference) or f"{operator.name}, as definition.py defines it."
        return said.split("\n")[0].replace("\\", "\\\\").replace('"""', "'''")
    lines = (inspect.getdoc(type(operator)) or operator.name).partition("\n\nC entry point")[0].split("\n")
    return "\n".join([lines[0], *(f"    {line}".rstrip() for line in lines[1:]), "    "])


def _arguments(interface: Interface) -> str:
    lines = []
    for argument in (*interface.tensors, *interface.outputs):
        returned = "returned: " if argument.kind == "output" else ""
        dtype = {"value": "floating", "index": "int32 or int64"}.get(argument.dtype, argument.dtype)
        meaning = f": {argument.meaning}" if argument.meaning else ""
        lines.append(f"- {returned}`{argument.name}` [{', '.join(argument.shape)}], {dtype}{meaning}")
    scalars = {argument.name: argument.meaning for argument in interface.arguments if argument.kind == "scalar"}
    for name, is_tensor in interface.parameters.items():
        if not is_tensor:
            lines.append(f"- `{name}`, int" + f": {scalars.get(name)}" * bool(scalars.get(name)))
    return "\n".join(lines)


def _row(m: Measurement, routes: Routes) -> str:
    low, high = m.interval
    numbers = f"{m.baseline_us:.1f} | {m.us:.1f} | {m.speedup:.2f}x | {low:.2f} to {high:.2f}"
    answers = routes.speedup(m.workload)
    chosen = f"{routes.chosen(m.workload)}, {answers:.2f}x" if answers is not None else "the operator has changed"
    return f"| {m.workload} | {m.role} | {m.baseline} | {numbers} | {chosen} |"


def _dispatch(routes: Routes) -> str:
    """Who answers what, and what that leaves."""
    if len(options(routes.rule)) == 1:
        said = "One program answers everything that was proven."
    else:
        said = (
            "Who answers is decided by sizes alone (`route` in `_contract.py`), by a rule learned from this table: no\n"
            "workload should be slower than the fastest baseline, holdout ones included, beyond 3 % of noise."
        )
    if not routes.losses:
        return said
    return f"{said} Slower than the fastest baseline even so: {', '.join(routes.losses)}."


def _proven(champion: Champion, proven: Proven) -> str:
    dtypes = " or ".join(sorted({dtype for dtype, _ in proven.variants}))
    sizes: Mapping[str, tuple[int, int]] = proven.scalars
    ranges = ", ".join(f"{name} {low} to {high}" for name, (low, high) in sizes.items())
    return f"on {champion.device}, in {dtypes}, with {ranges or 'the sizes of its workloads'}"


def _fallback(forms: Forms) -> str:
    if not forms.forward:
        return "the operator's float64 oracle, which is right and slow"
    if forms.forward == (EAGER,):
        return "the reference of definition.py"
    return (
        f"`{forms.forward[0]}`, the strongest baseline that is right on every adversarial workload, and for dtypes that"
        " were not tried the float64 oracle, which is right and slow"
    )


def _gradients(forms: Forms) -> str:
    if not forms.is_differentiable:
        return "None: the reference has no gradient."
    lender = f"`{forms.gradient[0]}`" if forms.gradient else "the operator's float64 oracle, which is slow"
    return (
        f"Those of {lender}, computed again from the inputs when a gradient is asked for: the program has no backward\n"
        "of its own, and none was evolved. Gradients of gradients are not there."
    )


def _licence(operator: Operator) -> str:
    return _OWN if isinstance(operator, CustomOperator) else "Apache-2.0, as kevolve and the programs it starts from"
