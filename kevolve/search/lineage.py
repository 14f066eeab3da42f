"""The lineage: the state of a run, folded from its events one by one.

A running driver and a resumed one come to their state by the same function, `Lineage.heard`, so that nothing can be
known to the one and not to the other. What has been begun and not ended is a `Step`; whoever finds one open goes on
where its events end.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kevolve.environment import lasting
from kevolve.events import Event
from kevolve.judge.lease import Survey
from kevolve.program import Program
from kevolve.propose.history import Past
from kevolve.propose.proposer import Credit, Request
from kevolve.search.behaviour import likeness
from kevolve.search.island import Memories, Memory
from kevolve.search.policies.policy import Arrival, Heard, Member, Search, Stirred, Told
from kevolve.verdict import Fault, Fitness, Judgement, Key, Rejected, Scored, from_json

Record = Mapping[str, Any]

REPAIRABLE = ("screen", "build", "correctness")  # what is wrong with a program that its proposer could mend


@dataclass
class Step:
    """One program's way from an island's request to its verdict. A starting program's has no request and no island."""

    search: Search
    asked: int | None = None
    island: int | None = None
    request: Request | None = None
    attempt: int = 0
    program: Record | None = None
    is_submitted: bool = False
    judgement: Judgement | None = None
    told: int = 0

    @property
    def has_verdict(self) -> bool:
        """A fault is none."""
        return self.judgement is not None


@dataclass(frozen=True)
class Repairable:
    """A rejected program that nobody was asked to repair yet; `repairs` in a row led to it."""

    program: str
    island: int
    repairs: int


@dataclass
class Trail:
    """How an island is doing: its best speedup since it was last stirred, and the verdicts since that was found."""

    best: float = 0.0
    stale: int = 0
    stirred: int = 0

    def note(self, told: Told) -> None:
        """Take a verdict on one of the island's own children in."""
        speedup = told.fitness[0] if told.fitness is not None else 0.0
        self.stale = 0 if speedup > self.best else self.stale + 1
        self.best = max(self.best, speedup)


@dataclass
class SearchState:
    """What one search has come to."""

    islands: int
    survey: Survey | None = None
    programs: dict[str, Record] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)
    judgements: dict[str, Judgement] = field(default_factory=dict)
    artefacts: dict[str, str] = field(default_factory=dict)
    likenesses: dict[str, str] = field(default_factory=dict)
    starting: dict[str, Step] = field(default_factory=dict)
    open: dict[int, Step] = field(default_factory=dict)
    repairable: list[Repairable] = field(default_factory=list)
    put_off: dict[int, Step] = field(default_factory=dict)  # ended in a fault: for the next session to take up again
    asks: list[int] = field(default_factory=list)
    heard: list[list[Heard]] = field(default_factory=list)
    trails: list[Trail] = field(default_factory=list)
    evaluations: int = 0
    fruitless: int = 0  # requests in a row that brought no new verdict
    told: int = 0
    migrations: int = 0
    confirmed: dict[str, Judgement] = field(default_factory=dict)
    champion: str | None = None
    best_speedup: float = 0.0  # of all that were Scored
    best_roofline: float = 0.0  # of the program with that speedup
    since_best: int = 0  # new verdicts on children
    crowned: float = 0.0  # when there is a champion: seconds since 1970

    def __post_init__(self) -> None:
        self.asks = [0] * self.islands
        self.heard = [[] for _ in range(self.islands)]
        self.trails = [Trail() for _ in range(self.islands)]

    def note(self, fitness: Fitness) -> None:
        """Is this the best so far?"""
        if fitness.speedup > self.best_speedup:
            self.best_speedup, self.best_roofline, self.since_best = fitness.speedup, fitness.roofline, 0

    @property
    def past(self) -> Past:
        """For proposers that learn from it."""
        return Past(self.programs, self.judgements, self.children, self.best_speedup)

    def take_up_again(self, evaluations: int) -> None:
        """Open what was put off, as far as the budget has room for it."""
        room = max(0, evaluations - self.evaluations - len(self.open))
        for asked in list(self.put_off)[:room]:
            self.open[asked] = self.put_off.pop(asked)

    def best(self, count: int) -> list[tuple[str, Judgement]]:
        """The best Scored programs, best first; of programs with one artefact only the first counts."""
        scored = {j.artefact or id: (id, j) for id, j in reversed(self.judgements.items()) if _is_scored(j)}
        return heapq.nlargest(count, scored.values(), key=lambda pair: (*_fitness(pair[1]), pair[0]))


class Lineage:
    """The state of all searches. `text` gives the text of a blob by name."""

    def __init__(self, islands: int, text: Callable[[str], str]) -> None:
        self._islands = islands
        self._text = text
        self.searches: dict[Search, SearchState] = {}
        self.config: Record = {}
        self.environment: Record = {}
        self.asked = 0
        self.faults = 0  # in a row
        self.last_fault = ""
        self.closed: str | None = None
        self.scored_seconds = 0.0
        self.scored = 0
        self.tokens = 0  # of calls of models, and what they cost as far as prices are known
        self.cost_usd = 0.0

    def heard(self, event: Event) -> None:
        """Take one event in."""
        match event.kind:
            case "opened":
                self._opened(event.data)
            case "closed":
                self.closed = event.data["reason"]
            case _:
                search = Search(event.data["operator"], event.data["device"])
                state = self.searches.setdefault(search, SearchState(self._islands))
                getattr(self, f"_{event.kind}")(search, state, event.data)
                if event.kind == "confirmed" and event.data["champion"]:
                    state.crowned = event.time

    def state(self, search: Search) -> SearchState:
        return self.searches.setdefault(search, SearchState(self._islands))

    def program(self, operator: str, record: Record) -> Program:
        """The program that an event's record is about, with its source."""
        source = self._text(record["source"])
        return Program(operator, record["language"], source, tuple(record["parents"]), record["origin"])

    def known(self, search: Search, key: Key) -> Judgement | None:
        """The verdict on exactly this key, if there is one."""
        judgement = self.state(search).judgements.get(key.program)
        return judgement if judgement is not None and judgement.key == key else None

    def same_artefact(self, search: Search, key: Key, artefact: str) -> Judgement | None:
        """The verdict on another program that was built to the same binaries, under the same circumstances."""
        state = self.state(search)
        judgement = state.judgements.get(state.artefacts.get(artefact, ""))
        return judgement if judgement is not None and replace(judgement.key, program=key.program) == key else None

    def same_but_for_names(self, search: Search, key: Key, program: Program) -> Judgement | None:
        """The verdict on another program that differs in nothing that matters, under the same circumstances."""
        state = self.state(search)
        judgement = state.judgements.get(state.likenesses.get(likeness(program.language, program.source), ""))
        return judgement if judgement is not None and replace(judgement.key, program=key.program) == key else None

    def under_way(self, search: Search, program: str) -> bool:
        """Is another lane at this program?"""
        return any(
            step.program is not None and step.program["id"] == program for step in self.state(search).open.values()
        )

    def memories(self, island: int) -> Memories:
        """What an island has to remember of every search."""
        return {
            search: Memory(tuple(state.heard[island]), state.asks[island]) for search, state in self.searches.items()
        }

    def told(self, step: Step, niche: str) -> Told:
        """What an island hears about a step that has come to a verdict."""
        assert step.program is not None
        assert step.judgement is not None
        verdict = step.judgement.verdict
        fitness = (verdict.fitness.speedup, verdict.fitness.worst) if isinstance(verdict, Scored) else None
        edits = tuple(step.program["origin"].get("edits", ()))
        return Told(step.program["id"], fitness, tuple(step.program["parents"]), edits, niche)

    def _opened(self, data: Record) -> None:
        for search, state in self.searches.items():
            if lasting(data["environment"].get(search.device)) != lasting(self.environment.get(search.device)):
                # Another toolchain or sandbox: old times say nothing about what is measured from here on.
                state.survey, state.confirmed, state.champion = None, {}, None
        if self.closed is not None:
            self.faults = 0
            for state in self.searches.values():
                state.fruitless = 0
        for state in self.searches.values():
            state.take_up_again(data["config"]["budget"]["evaluations"])
        self.config, self.environment, self.closed = data["config"], data["environment"], None

    def _surveyed(self, search: Search, state: SearchState, data: Record) -> None:
        state.survey = Survey(search.operator, search.device, data["times_us"], data["dropped"])

    def _asked(self, search: Search, state: SearchState, data: Record) -> None:
        asked = data["request"]
        credit = {edit: Credit(**record) for edit, record in asked["credit"].items()}
        request = Request(
            asked["kind"], tuple(asked["parents"]), asked["seed"], credit, repairs=asked.get("repairs", 0)
        )
        if request.kind == "repair":
            state.repairable = [one for one in state.repairable if one.program != request.parents[0]]
        state.open[data["asked"]] = Step(search, data["asked"], data["island"], request)
        # With several lanes, two answers of one island can be stored the other way round.
        state.asks[data["island"]] = max(state.asks[data["island"]], data["random_state"])
        self.asked = data["asked"]

    def _proposed(self, search: Search, state: SearchState, data: Record) -> None:
        self.tokens += data["tokens"]
        self.cost_usd += data["cost_usd"]
        program = data["program"]
        if state.programs.setdefault(program["id"], program) is program:
            for parent in program["parents"]:
                state.children.setdefault(parent, []).append(program["id"])
        if data["asked"] is None:
            state.starting.setdefault(program["id"], Step(search, program=program))
        elif data["retried"]:
            state.open[data["asked"]].attempt = data["attempt"] + 1
        else:
            state.open[data["asked"]].program = program

    def _called(self, search: Search, state: SearchState, data: Record) -> None:
        self.tokens += data["call"]["prompt_tokens"] + data["call"]["reply_tokens"]
        self.cost_usd += data["call"]["cost_usd"] or 0.0

    def _refused(self, search: Search, state: SearchState, data: Record) -> None:
        del state.open[data["asked"]]
        state.fruitless += 1
        if data["fault"]:
            self._fault(data["reason"])

    def _submitted(self, search: Search, state: SearchState, data: Record) -> None:
        self._step(state, data).is_submitted = True

    def _judged(self, search: Search, state: SearchState, data: Record) -> None:
        judgement = judgement_of(data["judgement"])
        step = self._step(state, data)
        if isinstance(judgement.verdict, Fault):
            self._fault(f"{judgement.verdict.kind}: {judgement.verdict.reason}")
            step.is_submitted = False
            if step.asked is not None:
                state.put_off[step.asked] = state.open.pop(step.asked)
            return
        if step.is_submitted:
            self.faults = 0  # the device works; a refused build or a known verdict would not show that
        step.judgement = judgement
        state.judgements[data["program"]] = judgement
        if step.asked is not None and not data["reused"]:
            state.since_best += 1
        if isinstance(judgement.verdict, Scored):
            state.note(judgement.verdict.fitness)
        if judgement.artefact:
            state.artefacts.setdefault(judgement.artefact, data["program"])
        if data.get("likeness"):
            state.likenesses.setdefault(data["likeness"], data["program"])
        if not data["reused"] and _is_scored(judgement):
            self.scored_seconds += judgement.seconds
            self.scored += 1
        if step.asked is not None:
            state.evaluations = data["number"]
            state.fruitless = state.fruitless + 1 if data["reused"] else 0

    def _told(self, search: Search, state: SearchState, data: Record) -> None:
        step = self._step(state, data)
        step.told += 1
        told = self.told(step, data.get("niche", ""))
        state.heard[data["island"]].append(told)
        state.trails[data["island"]].note(told)
        if step.asked is not None:
            state.told += 1
            del state.open[step.asked]
            if (lost := _repairable(step)) is not None:
                state.repairable.append(lost)

    def _migrated(self, search: Search, state: SearchState, data: Record) -> None:
        state.migrations += 1
        for move in data["moves"]:
            state.heard[move["target"]].append(arrival_of(move))

    def _stirred(self, search: Search, state: SearchState, data: Record) -> None:
        guest = arrival_of(data["guest"]) if data["guest"] is not None else None
        state.heard[data["island"]].append(Stirred(data["remedy"], guest))
        state.trails[data["island"]] = Trail(stirred=state.trails[data["island"]].stirred + 1)

    def _confirmed(self, search: Search, state: SearchState, data: Record) -> None:
        judgement = judgement_of(data["judgement"])
        if isinstance(judgement.verdict, Fault):  # says nothing of the program: whoever resumes the run asks again
            self._fault(f"{judgement.verdict.kind}: {judgement.verdict.reason}")
            return
        self.faults = 0
        state.confirmed[data["program"]] = judgement
        if data["champion"]:
            state.champion = data["program"]

    def _fault(self, reason: str) -> None:
        self.faults += 1
        self.last_fault = reason

    @staticmethod
    def _step(state: SearchState, data: Record) -> Step:
        return state.starting[data["program"]] if data["asked"] is None else state.open[data["asked"]]


def judgement_of(record: Record) -> Judgement:
    """A judgement out of an event."""
    fields = {name: value for name, value in record.items() if name != "detail"}
    return Judgement(**{**fields, "key": Key(**record["key"]), "verdict": from_json(record["verdict"])})


def arrival_of(move: Record) -> Arrival:
    """A migrant out of a move of a `migrated` event, or the guest of a `stirred` one."""
    speedup, worst = move["fitness"]
    return Arrival(Member(move["program"], (speedup, worst), move.get("niche", "")), move["replaced"])


def arrival_record(arrival: Arrival) -> dict[str, Any]:
    """Inverse of `arrival_of`."""
    member = arrival.member
    facts = {"program": member.program, "fitness": list(member.fitness), "niche": member.niche}
    return {**facts, "replaced": arrival.replaced}


def _repairable(step: Step) -> Repairable | None:
    """The step's program, if it is one to send back to its proposer."""
    assert step.program is not None
    assert step.judgement is not None
    verdict = step.judgement.verdict
    if step.request is None or not isinstance(verdict, Rejected) or verdict.stage not in REPAIRABLE:
        return None
    return Repairable(step.program["id"], step.island or 0, step.request.repairs)


def _is_scored(judgement: Judgement) -> bool:
    return isinstance(judgement.verdict, Scored)


def _fitness(judgement: Judgement) -> tuple[float, float]:
    assert isinstance(judgement.verdict, Scored)
    return judgement.verdict.fitness.speedup, judgement.verdict.fitness.worst
