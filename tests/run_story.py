"""A small run told as events, for tests of whoever listens to one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from kevolve.config import Config
from kevolve.events import Event
from kevolve.population import Population
from kevolve.program import Program
from kevolve.summary import Summary, summarise
from kevolve.verdict import Fault, Fitness, Measurement, Rejected, Scored, Verdict, to_json

DEVICE = "cpu-test"
SOURCE = "// the winner\n"
WINNER = Program("jagged_sum", "cpp", SOURCE, parents=("0123456789abcdef",))


def scored(speedup: float) -> Scored:
    """A verdict with this speedup on one workload."""
    interval = (speedup * 0.9, speedup * 1.1)
    timed = Measurement("main", "search", 1.0, "embedding_bag", 100.0, 100.0 / speedup, speedup, interval, 10.0)
    return Scored(Fitness.of([timed]), (timed,))


VERDICTS: tuple[Verdict, ...] = (
    scored(0.5),
    Rejected("build", "expected ';' before '}' token", "plain.cpp:3"),
    scored(2.0),
    Fault("timeout", "the machine did not answer"),
)


class Story:
    """Writes events into a run folder, as the driver does, and yields what listeners hear."""

    def __init__(self, config: Config):
        self.config = config
        self.population = Population(Path(config.runs_dir) / str(config.name))

    def search(self, operator: str = "jagged_sum") -> Iterator[Event]:
        """The beginning of a run: one search with a starting program, a failure, an improvement and a fault."""
        yield self.event("opened", config=asdict(self.config), environment={DEVICE: {}}, started=time.time())
        times = {"main": {"eager": 150.0, "embedding_bag": 100.0}}
        dropped = {"main": {"nested": "wrong in bfloat16"}}
        call = f"out = {operator}(values, offsets)"
        yield self.event("surveyed", operator=operator, device=DEVICE, times_us=times, dropped=dropped, call=call)
        for number, verdict in enumerate(VERDICTS, start=1):
            program = WINNER if number == 3 else Program(operator, "cpp", f"// {number}\n")
            yield self.proposed(program)
            yield self.judged(program, verdict, number)

    def proposed(self, program: Program) -> Event:
        told = {"id": program.id, "language": "cpp", "source": self.population.put(program.source)}
        told |= {"parents": list(program.parents), "origin": {}}
        place = {"operator": program.operator, "device": DEVICE, "island": 0}
        return self.event("proposed", asked=1, **place, program=told, tokens=0, cost_usd=0.0)

    def judged(self, program: Program, verdict: Verdict, number: int, *, reused: bool = False) -> Event:
        place = {"program": program.id, "operator": program.operator, "device": DEVICE, "island": 0}
        return self.event("judged", **place, number=number, reused=reused, judgement=judgement(verdict))

    def confirmed(self, program: Program, verdict: Verdict, *, champion: bool = True, reason: str = "") -> Event:
        place = {"program": program.id, "operator": program.operator, "device": DEVICE}
        return self.event("confirmed", **place, judgement=judgement(verdict), champion=champion, reason=reason)

    def closed(self, reason: str = "finished") -> Event:
        return self.event("closed", reason=reason)

    def event(self, kind: str, **data: object) -> Event:
        return self.population.append(kind, data)

    def summary(self) -> Summary:
        return summarise(str(self.config.name), self.population.recall())


def judgement(verdict: Verdict) -> dict[str, object]:
    """A judgement as events hold it."""
    key = {"program": "", "device": DEVICE, "toolchain": "", "operator_version": "", "judge_version": ""}
    rest = {"artefact": "", "sandbox": "process", "seed": 0, "seconds": 0.1, "environment": {}}
    return {"key": key, "verdict": to_json(verdict), **rest}
