"""Baselines that do not count on a workload: what that does to the speedup, which is over those that are left.

A wrong baseline may be the fastest one, so a headline over the others is higher than one over all would be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kevolve.verdict import Fitness, Measurement

Reasons = Mapping[str, Mapping[str, str]]  # by workload and baseline


def is_wrong(reason: str) -> bool:
    """Did it answer, and not rightly? The others fail before they do."""
    return not reason.startswith("fails")


def left_out(dropped: Reasons, *, wrong: bool) -> list[str]:
    """Those that are wrong, or those that fail, each group with its workloads: `a, b on main, large`."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in dict.fromkeys(name for reasons in dropped.values() for name in reasons):
        places = tuple(w for w, reasons in dropped.items() if name in reasons and is_wrong(reasons[name]) == wrong)
        if places:
            groups.setdefault(places, []).append(name)
    return [f"{', '.join(names)} on {', '.join(places)}" for places, names in groups.items()]


def where_none_is_wrong(measurements: Sequence[Measurement], dropped: Reasons) -> tuple[float | None, tuple[str, ...]]:
    """The speedup over the search workloads on which no baseline is wrong, and the names of the others.

    None if every one has a wrong baseline, or none has.
    """
    search = [m for m in measurements if m.role == "search"]
    wrong = tuple(m.workload for m in search if any(map(is_wrong, dropped.get(m.workload, {}).values())))
    rest = [m for m in search if m.workload not in wrong]
    return (Fitness.of(rest).speedup if wrong and rest else None), wrong


def by_dtype(measurements: Iterable[Measurement], facts: Mapping[str, Mapping[str, object]]) -> dict[str, float]:
    """The speedup over the search workloads of each dtype; empty where the run does not tell them or has only one."""
    groups: dict[str, list[Measurement]] = {}
    for m in measurements:
        if m.role == "search":
            groups.setdefault(str(facts.get(m.workload, {}).get("dtype", "")), []).append(m)
    if "" in groups or len(groups) < 2:
        return {}
    return {dtype: Fitness.of(group).speedup for dtype, group in groups.items()}
