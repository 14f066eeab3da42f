"""Steps: what happens to one program between an island's request and the moment the island hears the verdict.

Each method goes on from wherever the step's events end and stores an event for whatever it brings about. That is all
there is to resuming: an open step is simply taken up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kevolve.program import Program
from kevolve.propose.desk import Call
from kevolve.propose.history import history_of
from kevolve.propose.proposer import Context, Refusal, Request, Resident
from kevolve.search.behaviour import likeness, niche_of
from kevolve.search.confirmation import judgement_record
from kevolve.search.judging import Ready, Settled, build, equal, measure, prepare, seed_of
from kevolve.search.proposing import ProposerFailed, fault_in
from kevolve.verdict import Fault, Judgement, Rejected

if TYPE_CHECKING:
    from kevolve.judge.lease import Lease
    from kevolve.languages.language import Built
    from kevolve.population import Population
    from kevolve.search.exchange import Store
    from kevolve.search.island import Islands
    from kevolve.search.lineage import Lineage, Step
    from kevolve.search.policies.policy import Search
    from kevolve.search.workers import Propose

ATTEMPTS = 8  # of one request, while the answers are programs that are known already
DETAIL_KEPT = 600  # characters of a verdict's detail that stay in the event; the whole of it goes to a blob


class Steps:
    """Takes steps forward. `store` appends an event, and the lineage has heard it when that returns."""

    def __init__(
        self,
        run_seed: int,
        leases: Mapping[str, Lease],
        lineage: Lineage,
        population: Population,
        store: Store,
        proposing: Propose,
        islands: Islands,
        resident: Resident | None = None,
    ) -> None:
        self._run_seed = run_seed
        self._leases = leases
        self._lineage = lineage
        self._population = population
        self._store = store
        self._proposing = proposing
        self._islands = islands
        self._resident = resident
        self._attempts = ATTEMPTS if resident is None else resident.attempts
        self._building: dict[tuple[Search, str], asyncio.Task[Built | Rejected | Fault]] = {}

    def begin(self, search: Search, program: Program) -> None:
        """Take a starting program in: a step without request and island."""
        if program.id not in self._lineage.state(search).starting:
            self._proposed(search, None, None, program, {"attempt": 0, "retried": False, "tokens": 0, "cost_usd": 0.0})

    def build_ahead(self, search: Search, program: Program) -> None:
        """Begin to build a program whose step is yet to come; stores nothing."""
        lease = self._leases[search.device]
        if (search, program.id) not in self._building and self._lineage.known(search, lease.key(program)) is None:
            self._building[search, program.id] = asyncio.create_task(build(lease, program))

    async def end_builds(self, *, cancel: bool = False) -> None:
        """Wait until nothing is built ahead, or no longer. What went wrong is for the steps to find."""
        for task in self._building.values():
            if cancel:
                task.cancel()
        await asyncio.gather(*self._building.values(), return_exceptions=True)
        if cancel:
            self._building.clear()

    async def develop(self, step: Step) -> Ready | None:
        """Have the step's program proposed and built. None if it need not go to the device, whatever the reason."""
        while step.program is None:
            if not await self._propose(step):
                return None
        if step.has_verdict:
            return None
        program = self._lineage.program(step.search.operator, step.program)
        lease, building = self._leases[step.search.device], self._building.get((step.search, program.id))
        outcome = await prepare(lease, self._lineage, step.search, program, building)
        if isinstance(outcome, Settled):
            self._judged(step, outcome)
            return None
        return outcome

    async def measure(self, step: Step, ready: Ready) -> None:
        """Have the built program judged on the device."""
        lease, search = self._leases[step.search.device], step.search
        # Another lane may have measured the same binaries while this one waited for its turn.
        settled = equal(lease, self._lineage, search, ready.program, ready.built)
        if settled is None:
            if not step.is_submitted:
                self._store(
                    "submitted", {**_place(step), "program": ready.program.id, "artefact": ready.built.artefact}
                )
            state = self._lineage.state(search)
            assert state.survey is not None
            seed = seed_of(self._run_seed, search.operator, search.device, ready.program.id)
            settled = Settled(await measure(lease, state.survey, ready, seed, to_beat=state.best_speedup))
        self._judged(step, settled)

    async def tell(self, step: Step) -> None:
        """Let the island hear the verdict; all islands, if it is a starting program's. A fault is told to nobody."""
        if not step.has_verdict:
            return
        assert step.program is not None
        state = self._lineage.state(step.search)
        waiting = range(step.told, state.islands) if step.island is None else [step.island]
        assert step.judgement is not None
        niche = niche_of(step.program["language"], self._source(step), step.judgement.verdict)
        for island in waiting:
            self._store("told", {**_place(step), "island": island, "program": step.program["id"], "niche": niche})
            await self._islands.hear(island, step.search, state.heard[island][-1])

    async def _propose(self, step: Step) -> bool:
        """One attempt at a program; False if there is none to be had."""
        assert step.request is not None
        request = replace(step.request, attempt=step.attempt)
        context = self._context(step, request)
        lease = self._leases[step.search.device]
        try:
            answer = await self._proposing(request, context)
        except ProposerFailed as error:
            return self._refused(step, str(error), fault=True)
        if isinstance(answer, Refusal):
            return self._refused(step, answer.reason)
        problem = fault_in(answer.program, request, context, lease.languages)
        if problem is not None:
            return self._refused(step, problem)
        is_under_way = self._lineage.under_way(step.search, answer.program.id)
        is_known = is_under_way or self._lineage.known(step.search, lease.key(answer.program)) is not None
        retried = is_known and step.attempt + 1 < self._attempts
        cost = {"tokens": answer.tokens, "cost_usd": answer.cost_usd}
        if is_under_way and not retried:
            return self._refused(step, "every attempt gave a program that another lane is at")
        self._proposed(
            step.search, step.asked, step.island, answer.program, {"attempt": step.attempt, "retried": retried, **cost}
        )
        return True

    def called(self, context: Context, call: Call) -> dict[str, Any]:
        """Store a call of a model, with its texts as blobs; returns its record, as a program's origin keeps it."""
        texts = {"prompt": self._population.put(call.prompt), "reply": self._population.put(call.reply)}
        facts = {name: value for name, value in vars(call).items() if name not in texts}
        record = {**facts, "documents": list(call.documents), **texts}
        place = {"asked": context.number, "operator": context.operator, "device": context.device}
        self._store("called", {**place, "call": record})
        return record

    def _context(self, step: Step, request: Request) -> Context:
        search, state = step.search, self._lineage.state(step.search)

        def program(record: Mapping[str, Any] | None) -> Program:
            assert record is not None
            return self._lineage.program(search.operator, record)

        parents = tuple((program(state.programs[id]), state.judgements[id].verdict) for id in request.parents)
        seeds = tuple(program(step.program) for step in state.starting.values())
        context = Context(search.operator, search.device, parents, seeds)
        if self._resident is None:  # it travels with every request: what is not needed stays here
            return context
        lease = self._leases[search.device]
        return replace(
            context,
            number=step.asked or 0,
            languages=tuple(lease.languages),
            environment=lease.environment,
            survey=state.survey,
            seed_verdicts={seed.id: state.judgements[seed.id].verdict for seed in seeds if seed.id in state.judgements},
            history=history_of(state.past, request.parents),
        )

    def _proposed(
        self, search: Search, asked: int | None, island: int | None, program: Program, facts: Mapping[str, Any]
    ) -> None:
        record = {
            "id": program.id,
            "language": program.language,
            "source": self._population.put(program.source),
            "parents": list(program.parents),
            "origin": dict(program.origin),
        }
        place = {"asked": asked, "operator": search.operator, "device": search.device, "island": island}
        self._store("proposed", {**place, "program": record, **facts})

    def _refused(self, step: Step, reason: str, *, fault: bool = False) -> bool:
        self._store("refused", {**_place(step), "reason": reason, "fault": fault})
        return False

    def _judged(self, step: Step, settled: Settled) -> None:
        assert step.program is not None
        judgement, state = settled.judgement, self._lineage.state(step.search)
        is_new = step.asked is not None and not settled.reused and not isinstance(judgement.verdict, Fault)
        number = 0 if step.asked is None else state.evaluations + is_new
        alike = likeness(step.program["language"], self._source(step))
        facts = {"program": step.program["id"], "number": number, "reused": settled.reused, "likeness": alike}
        self._store("judged", {**_place(step), **facts, "judgement": self.record(judgement)})
        if self._resident is not None and step.asked is not None:
            self._resident.judged(step.asked, judgement.verdict)

    def _source(self, step: Step) -> str:
        assert step.program is not None
        return self._population.text(step.program["source"])

    def record(self, judgement: Judgement) -> dict[str, Any]:
        """A judgement for an event: a long detail goes to a blob, named by `detail`, and its head stays."""
        record = judgement_record(judgement)
        detail = record["verdict"].get("detail", "")
        if len(detail) > DETAIL_KEPT:
            record["detail"] = self._population.put(detail)
            record["verdict"]["detail"] = detail[:DETAIL_KEPT] + " [...]"
        return record


def _place(step: Step) -> dict[str, Any]:
    search = step.search
    return {"asked": step.asked, "operator": search.operator, "device": search.device, "island": step.island}
