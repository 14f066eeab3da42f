"""The survey: which baselines answer rightly on which workload, and which of them is the fastest there?

A library that is wrong on a workload is dropped there and named; it may still be the one to beat elsewhere.
"""

from __future__ import annotations

import math
from statistics import median

import torch

from kevolve.judge.baselines import BaselineFault, BaselineProcess
from kevolve.judge.call import Arenas, Call, place
from kevolve.judge.lease import Survey
from kevolve.operators.operator import Operator, Workload

_TIMED_CALLS = 7
_HOPELESS = 20.0  # a baseline this many times slower than the best is not timed to the end


def take_survey(
    operator: Operator, baselines: BaselineProcess, arenas: Arenas, rng: torch.Generator, device: str, kind: str
) -> Survey:
    """Every baseline on every search and holdout workload. Raises BaselineFault when none is right on one of them."""
    times: dict[str, dict[str, float]] = {}
    dropped: dict[str, dict[str, str]] = {}
    for workload in operator.workloads:
        if workload.role == "adversarial":
            continue
        right: dict[str, float] = {}
        wrong: dict[str, str] = {}
        for baseline in operator.baselines(kind):
            reason = _try(operator, workload, baseline, baselines, arenas, rng)
            if reason:
                wrong[baseline] = reason
            else:
                best = min(right.values(), default=math.inf)
                right[baseline] = _time(operator, workload, baseline, baselines, arenas, rng, best)
        if not right:
            raise BaselineFault(f"no baseline of {operator.name} is right on {workload.name}: {wrong}")
        times[workload.name] = right
        if wrong:
            dropped[workload.name] = wrong
    return Survey(operator.name, device, times, dropped)


def fresh(operator: Operator, workload: Workload, arenas: Arenas, rng: torch.Generator, count: int) -> list[Call]:
    """`count` calls with content of their own, laid out in emptied arenas."""
    arenas.reset()
    return [place(operator, workload, operator.make_inputs(workload, rng), arenas) for _ in range(count)]


def _try(
    operator: Operator,
    workload: Workload,
    baseline: str,
    baselines: BaselineProcess,
    arenas: Arenas,
    rng: torch.Generator,
) -> str:
    """Why the baseline cannot serve on this workload, or nothing."""
    calls = fresh(operator, workload, arenas, rng, 2)
    failed = baselines.warm(operator, baseline, calls)
    if failed:
        return f"fails: {failed}"
    malformed = baselines.answers(calls[0], arenas.outputs.fd, arenas.outputs.size)
    if malformed:
        return malformed
    mismatch = operator.check(workload, calls[0].answer(), operator.oracle(calls[0].given), calls[0].given)
    return f"wrong: {mismatch.reason}" if mismatch else ""


def _time(
    operator: Operator,
    workload: Workload,
    baseline: str,
    baselines: BaselineProcess,
    arenas: Arenas,
    rng: torch.Generator,
    best_us: float,
) -> float:
    """Median time of a call in us."""
    windows: list[float] = []
    for _ in range(_TIMED_CALLS):
        window, _ = baselines.run(operator, baseline, fresh(operator, workload, arenas, rng, 1), arenas)
        windows.append(window * 1e6)
        if len(windows) >= 2 and min(windows) > _HOPELESS * best_us:
            break
    return median(windows)
