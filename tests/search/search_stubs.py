"""A lease and a proposer that answer at once, and islands in this process: what stands above the judge, testable.

A stub program says how fast it is: its speedup is a hash of its text, so that everything is the same every time.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kevolve.config import Budget, Config, KnowledgeConfig, PolicyConfig
from kevolve.events import Event, read_events
from kevolve.judge.lease import Survey
from kevolve.languages.language import Built
from kevolve.program import Program
from kevolve.propose.proposer import Context, Proposal, Refusal, Request
from kevolve.search.workers import LOCAL
from kevolve.verdict import Fault, Fitness, Judgement, Key, Measurement, Rejected, Scored, Verdict

__all__ = ["LOCAL", "StubLease", "StubProposer", "config", "events_of", "ids"]

DEVICE = "cpu-stub"


def config(runs: Path, name: str = "trial", **changes: Any) -> Config:
    """A small run on the stub device."""
    budget = Budget(evaluations=changes.pop("evaluations", 10), minutes=changes.pop("minutes", 5.0))
    policy = PolicyConfig(islands=2, population=4, migration_every=changes.pop("migration_every", 4))
    return Config(
        **{"operators": ["jagged_sum"], "lanes": 1, "knowledge": KnowledgeConfig(earlier=0), **changes},
        name=name,
        runs_dir=str(runs),
        budget=budget,
        policy=changes.get("policy", policy),
    )


def share(text: str) -> float:
    """A number in [0, 1) that depends on the text alone."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2**48


@dataclass
class StubLease:
    """Judges by hash: some programs do not build, some are wrong, some build to the same binaries, the rest is Scored.

    `script` may give a program another verdict; `judged` counts what reached the device.
    """

    device: str = DEVICE
    languages: tuple[str, ...] = ("cpp",)
    exclusive: bool = True
    environment: dict[str, Any] = field(default_factory=lambda: {"sandbox": "stub", "toolchain": "stub-1"})
    script: Callable[[Program], Verdict | None] = lambda program: None
    pause: float = 0.0
    judged: list[str] = field(default_factory=list)
    prepared: list[str] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)
    at_work: list[str] = field(default_factory=list)
    is_closed: bool = False

    def key(self, program: Program) -> Key:
        return Key(program.id, self.device, str(self.environment["toolchain"]), "operator-1", "judge-1")

    async def survey(self, operator: str, seed: int) -> Survey | Fault:
        return Survey(operator, self.device, {"main": {"eager": 20.0, "compiled": 10.0}})

    async def prepare(self, program: Program) -> Built | Rejected | Fault:
        self.prepared.append(program.id)
        await asyncio.sleep(self.pause)
        if share(program.source + "build") < 0.05:
            return Rejected("build", "it does not compile", "error: " * 200)
        artefact = hashlib.sha256(program.source.replace("twin", "").encode()).hexdigest()[:16]
        return Built(artefact, {}, program.operator, {})

    async def measure(
        self,
        program: Program,
        built: Built,
        survey: Survey,
        seed: int,
        *,
        confirm: bool = False,
        to_beat: float = 0.0,
    ) -> Judgement:
        (self.confirmed if confirm else self.judged).append(program.id)
        self.at_work.append(program.id)
        await asyncio.sleep(self.pause)
        self.at_work.remove(program.id)
        verdict = self.script(program) or self._verdict(program, seed)
        return Judgement(self.key(program), verdict, built.artefact, "stub", seed, 0.001)

    def _verdict(self, program: Program, seed: int) -> Verdict:
        if share(program.source + "right") < 0.15:
            return Rejected("correctness", "row 3 is wrong")
        speedup = 0.5 + 2 * share(program.source) + 0.001 * share(f"{program.id}{seed}")
        interval = (speedup * 0.98, speedup * 1.02)
        measurement = Measurement("main", "search", 1.0, "compiled", 10.0, 10 / speedup, speedup, interval, 2.0)
        return Scored(Fitness.of([measurement]), (measurement,))

    async def close(self) -> None:
        self.is_closed = True


@dataclass
class StubProposer:
    """A child is its parents' ids and a number. Numbers below `kinds` make answers that are known already."""

    kinds: int = 1_000_000

    async def propose(self, request: Request, context: Context) -> Proposal | Refusal:
        draw = random.Random(f"{request.seed}/{request.attempt}")
        if draw.random() < 0.03:
            return Refusal("nothing comes to mind")
        twin = " twin" if draw.random() < 0.2 else ""
        parents = request.parents or (context.seeds[0].id,)
        source = f"// {request.kind} of {' '.join(parents)}: {draw.randrange(self.kinds)}{twin}"
        edits = [draw.choice(["unroll", "tile", "parallel"])]
        return Proposal(
            Program(context.operator, "cpp", source, parents, {"proposer": "stub", "edits": edits}), 7, 0.01
        )


def events_of(run: Config) -> list[Event]:
    """What a run has stored."""
    return list(read_events(Path(run.runs_dir) / str(run.name) / "events.jsonl"))


def ids(events: Collection[Any], kind: str) -> list[str]:
    """The programs that events of one kind are about, in order."""
    return [event.data["program"] for event in events if event.kind == kind]
