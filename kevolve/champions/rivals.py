"""Rivals: what else was measured on a champion's workloads, in its session: programs of the run, and baselines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from kevolve.champions.champion import Champion
from kevolve.champions.dispatch import Point, Range
from kevolve.program import Program
from kevolve.verdict import Measurement, Scored, from_json

if TYPE_CHECKING:
    from kevolve.events import Event
    from kevolve.operators.operator import Operator, Workload

MOST = 2  # programs beside the champion
_DRAWS = 5  # of a workload's sizes

Speedups = Mapping[str, float]  # over the fastest baseline, by workload


@dataclass(frozen=True)
class Rivals:
    """`programs` by id and `baselines` by name, each with its speedups."""

    programs: Mapping[str, tuple[Program, Speedups]] = field(default_factory=dict)
    baselines: Mapping[str, Speedups] = field(default_factory=dict)


def rivals_of(champion: Champion, measured: Sequence[Measurement], runs_dir: Path) -> Rivals:
    """What the champion's run tells. Of a champion whose run is not here, the baselines that its record names.

    A kept champion has been measured again since, and other programs of its run have not.
    """
    found: dict[str, dict[str, float]] = {}
    for measurement in measured:
        found.setdefault(measurement.baseline, {})[measurement.workload] = 1.0
    log = (champion.folder.parents[2] if not champion.is_kept else runs_dir / champion.run) / "events.jsonl"
    if not log.is_file():
        return Rivals({}, found)
    from kevolve.events import read_events

    told = [event for event in read_events(log) if _is_about(event, champion)]
    fastest = {measurement.workload: measurement.baseline for measurement in measured}
    for event in told:
        if event.kind == "surveyed":
            for workload, times in event.data["times_us"].items():
                best = times.get(fastest.get(workload, ""))
                for name, time_us in times.items() if best else ():
                    found.setdefault(name, {})[workload] = best / time_us
    programs = {} if champion.is_kept else _programs(champion, told, log.parent)
    return Rivals(programs, found)


def points(
    operator: Operator, measured: Sequence[Measurement], options: Mapping[str, Speedups], champion: str
) -> list[Point]:
    """The timed workloads as dispatch sees them; `options` beside the champion, which is the option `champion`."""
    workloads = {workload.name: workload for workload in operator.workloads}
    found = []
    for measurement in measured:
        workload = workloads.get(measurement.workload)
        if workload is None:  # the operator has changed since
            continue
        speedups = {name: known[workload.name] for name, known in options.items() if workload.name in known}
        speedups[champion] = measurement.speedup
        found.append(Point(workload.name, measurement.weight, features(operator, workload), speedups))
    return found


def features(operator: Operator, workload: Workload) -> dict[str, Range]:
    """Sizes, elements of inputs and bytes of a value, each as the range over some draws."""
    rng = torch.Generator().manual_seed(0)
    seen: dict[str, list[int]] = {}
    for _ in range(_DRAWS):
        scalars = operator.draw_scalars(workload, rng)
        shapes = operator.shapes(scalars)
        for name, value in scalars.items():
            seen.setdefault(name, []).append(value)
        for argument in operator.arguments:
            if argument.kind == "input":
                seen.setdefault(f"{argument.name}.numel()", []).append(torch.Size(shapes[argument.name]).numel())
            if argument.kind == "input" and argument.dtype == "value":
                size = getattr(torch, workload.dtype).itemsize
                seen.setdefault(f"{argument.name}.element_size()", []).append(size)
    return {name: (min(values), max(values)) for name, values in seen.items()}


def _is_about(event: Event, champion: Champion) -> bool:
    return event.data.get("operator") == champion.operator and event.data.get("device") == champion.device


def _programs(champion: Champion, told: Sequence[Event], folder: Path) -> dict[str, tuple[Program, Speedups]]:
    """Other programs that the run has confirmed on every workload, best first."""
    from kevolve.population import read_text

    about = {event.data["program"]["id"]: event.data["program"] for event in told if event.kind == "proposed"}
    found: dict[str, tuple[Program, Speedups]] = {}
    for name, verdict in _confirmed(told):
        if name != champion.program and name in about and len(found) < MOST:
            record = about[name]
            source = read_text(folder, record["source"])
            program = Program(champion.operator, record["language"], source, tuple(record["parents"]), record["origin"])
            found[name] = program, {m.workload: m.speedup for m in verdict.measurements}
    return found


def _confirmed(told: Sequence[Event]) -> Iterator[tuple[str, Scored]]:
    found = {e.data["program"]: from_json(e.data["judgement"]["verdict"]) for e in told if e.kind == "confirmed"}
    scored = [(name, verdict) for name, verdict in found.items() if isinstance(verdict, Scored)]
    yield from sorted(scored, key=lambda pair: -pair[1].fitness.speedup)
