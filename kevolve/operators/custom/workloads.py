"""Workloads: those that a user lists, read strictly, and small adversarial ones derived from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kevolve.errors import UsageError, nearest
from kevolve.operators.custom.arguments import smallest
from kevolve.operators.custom.contents import CONTENTS
from kevolve.operators.inputs import DTYPES
from kevolve.operators.operator import Workload
from kevolve.verdict import ROLES

FIELDS = ("name", "role", "dtype", "weight")


def read_workloads(where: str, listed: Any, sizes: Sequence[str]) -> tuple[Workload, ...]:
    """The workloads of a list of dicts: make_inputs' `sizes` beside `FIELDS`. UsageError says which is wrong."""
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise UsageError(f"{where}: workloads must be a list such as [dict({_example(sizes)})].")
    for name in sizes:
        if name in FIELDS:
            raise UsageError(f"{where}: make_inputs takes {name}, which is a field of workloads. Give it another name.")
    made = [_workload(f"{where}: workloads[{place}]", entry, sizes) for place, entry in enumerate(listed)]
    names = [workload.name for workload in made]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{where}: two workloads are called {name}. Give each a name of its own: name=...")
    if not any(workload.role == "search" for workload in made):
        raise UsageError(f'{where}: no workload has role="search", which is what programs are made fast on.')
    return tuple(made)


def derive_adversarial(given: Sequence[Workload]) -> Iterator[tuple[Workload, Workload]]:
    """Small workloads on which programs that assume too much go wrong; not every operator accepts all of them.

    Bases of tensors off their alignment, and sizes that vary in `given` at 1 and at an odd neighbour. Each comes
    with the workload that it is made from.
    """
    search = [workload for workload in given if workload.role == "search"]
    for dtype in sorted({workload.dtype for workload in search}, reverse=True):
        base = smallest([workload for workload in search if workload.dtype == dtype])
        yield replace(base, name=f"{base.name}_misaligned", role="adversarial", layout="misaligned", weight=1.0), base
    base = smallest(search)
    for name, size in base.sizes.items():
        if len({workload.sizes[name] for workload in given}) > 1:
            odd = size + 1 if size % 2 == 0 else size + 2
            for other in {1, odd} - {size}:
                sizes = {**base.sizes, name: other}
                yield replace(base, name=f"{name}_{other}", role="adversarial", sizes=sizes, weight=1.0), base


def derive_contents(given: Sequence[Workload]) -> Iterator[Workload]:
    """The smallest search workload with each content that make_inputs may never draw."""
    base = smallest([workload for workload in given if workload.role == "search"])
    for content in CONTENTS:
        yield replace(base, name=f"{base.name}_{content}", role="adversarial", values=content, weight=1.0)


def _workload(at: str, entry: Any, sizes: Sequence[str]) -> Workload:
    if not isinstance(entry, Mapping):
        raise UsageError(f"{at}: expected dict({_example(sizes)}), got {entry!r}.")
    for key in entry:
        if key not in sizes and key not in FIELDS:
            known = [*sizes, *FIELDS]
            raise UsageError(f"{at}: there is no field {key}.{nearest(str(key), known)} Fields: {', '.join(known)}.")
    for name in sizes:
        if type(entry.get(name)) is not int or entry[name] < 0:
            got = f"got {entry[name]!r}" if name in entry else "it is missing"
            raise UsageError(f"{at}: make_inputs takes {name}, a whole number of at least 0, and {got}.")
    weight = entry.get("weight", 1.0)
    if type(weight) not in (int, float) or not 0 < weight < float("inf"):
        raise UsageError(f"{at}: weight must be a number above 0, got {weight!r}.")
    for key, choices in (("role", ROLES), ("dtype", DTYPES)):
        if entry.get(key, choices[0]) not in choices:
            close = nearest(str(entry[key]), choices)
            raise UsageError(f"{at}: {key} is {entry[key]!r}.{close} It may be {' or '.join(choices)}.")
    chosen = {name: entry[name] for name in sizes}
    dtype, role = entry.get("dtype", "float32"), entry.get("role", "search")
    return Workload(str(entry.get("name", _name(chosen, dtype))), role, chosen, dtype, weight=float(weight))


def _name(sizes: Mapping[str, int], dtype: str) -> str:
    """`4096x256`, with the dtype if it is not the usual one."""
    shown = "x".join(map(str, sizes.values())) or "only"
    return shown if dtype == "float32" else f"{shown}_{dtype}"


def _example(sizes: Sequence[str]) -> str:
    return ", ".join(f"{name}=128" for name in sizes)
