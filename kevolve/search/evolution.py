"""Evolution: the driver. From a configuration to champions, with every verdict on disk on the way.

The driver is the only writer of events and submits every judgement. Each of `lanes` coroutines takes one program at
a time from an island's request to the verdict that the island hears; there are no generations and no barrier.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kevolve.durable import write_atomically
from kevolve.errors import FaultsStopped, UsageError
from kevolve.operators.custom.bring import bring, ready
from kevolve.population import Population, open_run
from kevolve.propose.desk import Desk
from kevolve.propose.llm.checking import refuse_unready
from kevolve.propose.proposer import PutOff, is_resident
from kevolve.search import opening
from kevolve.search.asking import Asking
from kevolve.search.confirmation import write_champions
from kevolve.search.crowning import Crowning
from kevolve.search.earlier import beginnings
from kevolve.search.judging import Ready, seed_of, survey_of
from kevolve.search.lineage import Lineage, Step
from kevolve.search.listener import Audience, Listener
from kevolve.search.phases import Phases
from kevolve.search.policies.policy import Search
from kevolve.search.proposing import in_one_line
from kevolve.search.session import leases_of, proposer_of, running
from kevolve.search.steps import Steps
from kevolve.search.stopping import Stopping
from kevolve.search.workers import Workers, workers_of
from kevolve.summary import Summary, Tally
from kevolve.trouble import resume_command
from kevolve.verdict import Fault

if TYPE_CHECKING:
    from kevolve.config import Config
    from kevolve.judge.lease import Lease
    from kevolve.propose.proposer import Proposer, Resident

Interrupt = Callable[[], object]

log = logging.getLogger(__name__)

QUIET_EVERY_SECONDS = 20.0  # between summaries written and listeners flushed while the run goes on
WATCH_SECONDS = 5.0  # between looks at whether the cluster is still there
GIVE_BACK_SECONDS = 20.0  # for a device to be given back
LANES = 4
DRAIN_SECONDS = 120.0  # for what is under way when the asking ends; then it is left for a resume


def evolve(
    config: Config,
    listeners: Sequence[Listener] = (),
    *,
    leases: Sequence[Lease] | None = None,
    proposer: Proposer | Resident | None = None,
    workers: Workers | None = None,
    began: float | None = None,
    on_start: Callable[[Interrupt], object] | None = None,
) -> Summary:
    """Run the search that `config` describes, or go on with it, and return what it has come to.

    `leases`, `proposer` and `workers` are made from the configuration unless given; `began` is when the command did, by
    `time.monotonic`, for the budget; `on_start` is handed what stops the search, like a Ctrl-C, from another thread.
    Raises UsageError before anything is changed, and FaultsStopped, with everything saved, if the machine kept failing.
    """
    began = time.monotonic() if began is None else began
    audience = Audience(listeners)
    if config.name is None:
        raise UsageError("name: the run has none. Type name=..., or start it with python -m kevolve.run.")
    if proposer is None and not config.resume:
        refuse_unready(config)
    own = bring(config)
    if own is not None and not config.resume:
        own = ready(own)
    with open_run(Path(config.runs_dir), config.name, resume=config.resume, began=began) as population:
        lineage, tally = opening.recall(population, config)
        if lineage.config:
            audience.recalled(population.recall())
        if opening.is_complete(lineage, config):
            summary = tally.summary()
            write_results(population, lineage, summary)  # a full disk or a kill may have come between it and them
            audience.closed(summary)
            return summary
        if own is not None:
            (own if own.facts else ready(own)).keep(population.folder)
        if proposer is None and config.resume:  # not for one that is complete
            refuse_unready(config)
        workers = workers or workers_of(config)
        with running(workers, config):
            driver = Driver(config, population, lineage, tally, audience, workers, began)
            return asyncio.run(driver.run(leases, proposer, on_start))


class Driver:
    """One session of a run."""

    def __init__(
        self,
        config: Config,
        population: Population,
        lineage: Lineage,
        tally: Tally,
        audience: Audience,
        workers: Workers,
        began: float,
    ) -> None:
        self.config = config
        self.population = population
        self.lineage = lineage
        self.tally = tally
        self.audience = audience
        self.workers = workers
        self.started = time.time() - (time.monotonic() - began)
        self.stopping = Stopping(config.budget, lineage, began, tally.seconds)
        self.phases = Phases()
        self.changed = asyncio.Event()
        self.quiet_at = time.monotonic()
        self.resident: Resident | None = None

    async def run(
        self,
        leases: Sequence[Lease] | None,
        proposer: Proposer | Resident | None,
        on_start: Callable[[Interrupt], object] | None = None,
    ) -> Summary:
        """Everything, from leases to champions."""
        if on_start is not None:
            loop = asyncio.get_running_loop()
            on_start(lambda: loop.call_soon_threadsafe(self.stopping.interrupt))
        self.leases = {lease.device: lease for lease in leases or leases_of(self.config)}
        try:
            self.open(proposer or proposer_of(self.config))
            with self.stopping.on_signals():
                return self.close(await self.search())
        except OSError:  # nothing more can be stored, but whoever listens can still be told
            self.audience.closed(replace(self.tally.summary(), stopped="faults"))
            raise
        finally:
            await self.give_back()

    async def give_back(self) -> None:
        """Close every lease. One that cannot be closed, because Ray is gone, does not hide why the run ended."""
        if self.resident is not None:
            await self.resident.close()
        for device, lease in self.leases.items():
            try:
                await asyncio.wait_for(lease.close(), GIVE_BACK_SECONDS)
            except Exception as error:
                log.warning("%s could not be given back: %s", device, in_one_line(error) or "no answer")

    def open(self, proposer: Proposer | Resident) -> None:
        """Store that the session begins, and get what it works with."""
        self.resident = proposer if is_resident(proposer) else None
        name = self.population.folder.name
        environment = opening.environment_of(list(self.leases.values()), self.lineage, name)
        self.starting = {
            Search(operator, device): beginnings(self.config, self.lineage, operator, lease)
            for device, lease in self.leases.items()
            for operator in self.config.operators
        }
        opening.write_config(self.population.folder, self.config)
        opened = {"config": asdict(self.config), "environment": environment, "started": self.started, "name": name}
        left_out = opening.left_out(self.starting, self.leases, self.config.seeds)
        self.store("opened", {**opened, "left_out": left_out} if left_out else opened)
        for search in self.starting:
            self.lineage.state(search)
        self.islands = self.workers.islands(self.config.policy, self.config.seed, self.lineage.memories)
        self.steps = Steps(
            self.config.seed,
            self.leases,
            self.lineage,
            self.population,
            self.store,
            self.workers.proposing(proposer, self.config.cluster),
            self.islands,
            self.resident,
        )
        if self.resident is not None:
            self.resident.begin(self.desk())
        repairs = self.resident.repairs if self.resident is not None else 0
        shared = (self.config, self.lineage)
        self.asking = Asking(*shared, self.stopping, self.islands, self.store, self.use_quiet_moment, repairs)
        self.crowning = Crowning(*shared, self.leases, self.stopping, self.steps, self.store)

    def desk(self) -> Desk:
        """What a resident proposer works at."""
        spent = (self.lineage.tokens, self.lineage.cost_usd)
        about = (self.config, self.population.folder)
        return Desk(*about, *spent, self.steps.called, self.phases.away, self.stopping.is_over)

    async def search(self) -> str | None:
        """The search itself; returns what trouble ended it, if trouble did."""
        from ray.exceptions import RayError

        me = asyncio.current_task()
        assert me is not None
        self.stopping.cancel = me.cancel
        watch = asyncio.create_task(self.watch(me))
        try:
            await self.judge_starting_programs()
            await self.steady_state()
            await self.crowning.confirm()
        except asyncio.CancelledError:
            me.uncancel()
            if watch.done():
                self.stopping.reason = "faults"
                return watch.result()
            if not self.stopping.is_cancelled:
                raise
        except (FaultsStopped, RayError) as error:
            log.error("the run stops", exc_info=error)
            self.stopping.reason = "faults"
            return in_one_line(error)
        finally:
            self.stopping.cancel = None  # saving is not to be cancelled
            watch.cancel()
        return None

    async def watch(self, work: asyncio.Task[Any]) -> str:
        """End the work when the cluster is gone, and say how: Ray may let a call to a lost device wait for ever."""
        while (loss := await self.workers.loss(self.config.cluster)) is None:
            await asyncio.sleep(WATCH_SECONDS)
        work.cancel()
        return loss

    async def judge_starting_programs(self) -> None:
        """Survey every search's baselines, judge its starting programs and tell them to every island.

        Where builds spoil no timing a search's programs are built side by side, while those of the one before are
        measured; not beside a survey, whose times serve for long.
        """
        is_apart = not any(lease.exclusive for lease in self.leases.values())
        try:
            for place, search in enumerate(searches := list(self.starting)):
                await self.steps.end_builds()
                await self.judge_starting(search, searches[place : place + 2] if is_apart else ())
                if self.stopping.reason is not None:
                    return
        finally:
            await self.steps.end_builds(cancel=True)

    async def judge_starting(self, search: Search, ahead: Sequence[Search]) -> None:
        """The starting programs of one search, those of others built ahead."""
        for program in self.starting[search]:
            self.steps.begin(search, program)
        await self.survey(search)
        for other in ahead:
            for program in self.starting[other]:
                self.steps.build_ahead(other, program)
        for step in self.lineage.state(search).starting.values():
            if self.stopping.reason is not None:
                return
            ready = await self.steps.develop(step)
            if ready is not None:
                await self.steps.measure(step, ready)
            await self.steps.tell(step)

    async def survey(self, search: Search) -> None:
        """Time the baselines, unless that is known."""
        if self.lineage.state(search).survey is not None or self.stopping.reason is not None:
            return
        seed = seed_of(self.config.seed, search.operator, search.device, "survey")
        survey = await survey_of(self.leases[search.device], search.operator, seed)
        if isinstance(survey, Fault):
            raise FaultsStopped(f"the baselines of {search} could not be timed ({survey.kind}): {survey.reason}")
        times = {workload: dict(row) for workload, row in survey.times_us.items()}
        dropped = {workload: dict(row) for workload, row in survey.dropped.items()}
        place = {"operator": search.operator, "device": search.device}
        workloads = {workload: dict(facts) for workload, facts in survey.workloads.items()}
        known = {"times_us": times, "dropped": dropped, "workloads": workloads, "call": survey.call}
        self.store("surveyed", {**place, **known})

    def lanes(self) -> int:
        """As many as the user wants, else `LANES`; more where programs are built beside timings that take no longer."""
        if self.config.lanes is not None:
            return self.config.lanes
        is_apart = not any(lease.exclusive for lease in self.leases.values())
        return max(LANES, self.workers.cores() * 3 // 4) if is_apart else LANES

    async def steady_state(self) -> None:
        """All lanes, until there is nothing more to ask for and what is under way has ended."""
        lanes = {asyncio.create_task(self.lane(number)) for number in range(self.lanes())}
        pending, drain_until = lanes, float("inf")
        try:
            while pending and time.monotonic() < drain_until:
                done, pending = await asyncio.wait(pending, timeout=5, return_when=asyncio.FIRST_EXCEPTION)
                for lane in done:
                    lane.result()
                if self.stopping.reason is not None:
                    drain_until = min(drain_until, time.monotonic() + DRAIN_SECONDS)
        finally:
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)

    async def lane(self, number: int) -> None:
        """One program after another: ask, propose and build beside other lanes, measure, tell."""
        is_light = self.resident is not None  # who proposes waits for somebody else: no timing should come before that
        while True:
            async with self.phases.shared(light=is_light):
                step = await self.asking.next_step(number)
                ready = await self.develop(step) if step is not None else None
            if step is None:
                if self.stopping.reason is not None:
                    return
                # The budget is taken up by what is under way, which may yet turn out to be known and cost nothing.
                await self.changed.wait()
                continue
            if ready is not None:
                await self.measure(step, ready)
            async with self.phases.shared(light=is_light):
                await self.steps.tell(step)
            self.changed.set()
            self.changed = asyncio.Event()

    async def develop(self, step: Step) -> Ready | None:
        """See `Steps.develop`. A step that is put off stays open for whoever goes on with the run."""
        try:
            return await self.steps.develop(step)
        except PutOff as later:
            log.info("request %s is put off: %s", step.asked, later)
            self.stopping.reason = self.stopping.reason or later.ends or "interrupted"
            return None

    async def measure(self, step: Step, ready: Ready) -> None:
        """On an exclusive device, with nothing else of ours at work; on others beside everything but such a timing."""
        lease = self.leases[step.search.device]
        async with self.phases.alone() if lease.exclusive else self.phases.shared():
            await self.steps.measure(step, ready)

    def use_quiet_moment(self) -> None:
        """Now and then, while nothing is timed: write the summary and let the listeners do their slow things."""
        if time.monotonic() - self.quiet_at >= QUIET_EVERY_SECONDS:
            write_summary(self.population, self.tally.summary())
            self.audience.flush()
            self.quiet_at = time.monotonic()

    def store(self, kind: str, data: Mapping[str, Any]) -> None:
        """The one way in which anything becomes known: on disk first, then to the lineage, then to whoever listens."""
        event = self.population.append(kind, data)
        self.lineage.heard(event)
        self.tally.heard(event)
        self.audience.heard(event)

    def close(self, trouble: str | None) -> Summary:
        """Save everything and say how it ended. Raises FaultsStopped if it was faults that ended it."""
        reason = self.stopping.reason or "evaluations"
        if reason == "faults" and trouble is None:
            trouble = f"{self.lineage.faults} faults in a row, the last: {self.lineage.last_fault}"
        self.store("closed", {"reason": reason, **({"trouble": trouble} if trouble else {})})
        self.population.seal()
        summary = self.tally.summary()
        write_results(self.population, self.lineage, summary)
        self.audience.closed(summary)
        if trouble is not None:
            raise FaultsStopped(
                f"{trouble}\n  Everything that was judged is saved. See `kevolve doctor`, mend the machine, and go on"
                f" with: {resume_command(self.config)}"
            )
        return summary


def write_results(population: Population, lineage: Lineage, summary: Summary) -> None:
    """What a run has come to, for people: the champions' files and the summary."""
    write_champions(population, lineage)
    write_summary(population, summary)


def write_summary(population: Population, summary: Summary) -> None:
    write_atomically(population.folder / "summary.json", summary.to_json().encode())
