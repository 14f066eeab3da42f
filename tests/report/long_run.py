"""A long run told as events in memory, with the few texts that its report reads in a run's folder."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from kevolve.config import Config
from kevolve.events import Event
from kevolve.population import Population
from kevolve.verdict import Fitness, Measurement, Scored, to_json

DEVICE = "cpu-test"
PLACE = {"operator": "jagged_sum", "device": DEVICE}
KEY = {"program": "", "device": DEVICE, "toolchain": "g++", "operator_version": "1", "judge_version": "1"}
EDITS = ("unroll", "tile", "parallel", "prefetch", "narrow_index")


def events(population: Population, programs: int) -> Iterator[Event]:
    """A search of so many programs with a champion at its end. Only sources are stored in `population`."""
    draw, number = random.Random(1), 0
    plain = population.put("for (;;) {}\n")

    def event(kind: str, **data: Any) -> Event:
        nonlocal number
        number += 1
        return Event(number, 1.8e9 + number, kind, data, float(number))

    peaks = {"copy_bytes_per_s": 6e10, "cache_read_bytes_per_s": 1.5e11, "flops_per_s": 3e11}
    about = {"sandbox_tier": "bwrap", "self_test": "passed", "toolchain": "g++", "peaks": peaks}
    yield event("opened", config=asdict(Config(name="long")), environment={DEVICE: about}, started=1.8e9)
    times = {name: {"eager": 300.0, "compiled": 100.0} for name in ("main", "small", "odd")}
    yield event("surveyed", **PLACE, times_us=times, dropped={})
    best, leader = 0.4, ""
    for place in range(programs + 1):
        leads = not place or (draw.random() < 0.15 and best < 2.9)
        gain = (3 - best) * 0.25 if place else 0.0
        id, speedup = f"{place:016x}", best + gain if leads else best * draw.uniform(0.6, 0.99)
        source = population.put(f"for (;;) {{ step({place}); }}\n") if leads else plain
        parents, asked = ([leader] if place else []), (place or None)
        edits = {"kind": "improve", "edits": draw.sample(EDITS, 2)} if place else {"file": "plain.cpp"}
        origin = {"proposer": "genetic" if place else "seed", **edits}
        program = {"id": id, "language": "cpp", "source": source, "parents": parents, "origin": origin}
        home = {"asked": asked, **PLACE, "island": place % 4}
        yield event("proposed", **home, program=program, attempt=0, retried=False, tokens=0, cost_usd=0.0)
        verdict = to_json(_scored(speedup))
        if not leads and place % 7 == 3:
            verdict = {
                "verdict": "Rejected",
                "stage": "correctness",
                "reason": f"row {place} is wrong",
                "detail": "",
            }
        elif leads:
            best, leader = speedup, id
        yield event("judged", **home, program=id, number=place, reused=False, judgement=_judgement(verdict))
    told = {"program": leader, "champion": True, "reason": "confirmed"}
    yield event("confirmed", **PLACE, **told, judgement=_judgement(to_json(_scored(best))))
    yield event("closed", reason="evaluations")


def _judgement(verdict: dict[str, Any]) -> dict[str, Any]:
    rest = {"artefact": "", "sandbox": "bwrap", "seed": 0, "seconds": 0.5, "environment": {}}
    return {"key": KEY, "verdict": verdict, **rest}


def _scored(speedup: float) -> Scored:
    interval = (speedup * 0.97, speedup * 1.03)
    timed = [
        Measurement(name, role, 1.0, "compiled", 100.0, 100.0 / speedup, speedup, interval, floor_us)  # type: ignore[arg-type]
        for name, role, floor_us in (("main", "search", 30.0), ("small", "search", 5.0), ("odd", "holdout", 20.0))
    ]
    return Scored(Fitness.of(timed[:2]), tuple(timed))
