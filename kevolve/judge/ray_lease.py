"""The real lease: a judge in a long-lived Ray actor per device, and builds as Ray tasks.

Candidate programs never run in a Ray worker: the actor owns the sandboxed fork server, and everything that it
started ends with it. Ray starts a dead actor anew on its node; where the node is lost, a like device on another node
takes its place. A call that was lost is made once more, and comes back as a Fault if that is lost, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import ray
from ray.exceptions import (
    ActorUnavailableError,
    ActorUnschedulableError,
    GetTimeoutError,
    LocalRayletDiedError,
    NodeDiedError,
    RayActorError,
    RayError,
    RayTaskError,
    TaskUnschedulableError,
)

from kevolve.cluster.discovery import Offer, find_offers, last_line, survey_nodes
from kevolve.cluster.nodes import LOOK_SECONDS, NodeLost, answer_of, nodes_within
from kevolve.config import Config, JudgeConfig
from kevolve.devices.registry import find_devices
from kevolve.errors import FaultsStopped, UsageError
from kevolve.judge.lease import Survey
from kevolve.judge.sandbox.tiers import Tier
from kevolve.languages.language import Built, Target
from kevolve.operators.custom.definition import Definition
from kevolve.operators.custom.given import give, given
from kevolve.program import Program
from kevolve.verdict import Fault, Judgement, Key, Rejected

_TRIES = 2  # a build or a call whose process died is tried once more
_RESTART_SECONDS = 60.0
_START_SECONDS = 300.0  # for an actor: PyTorch is imported, peaks are measured, and another run may hold the device

log = logging.getLogger(__name__)


class Lost(Exception):
    """A call that the device's actor did not live to answer."""


@dataclass(frozen=True)
class Description:
    """What a device actor says of itself once, so that the driver needs neither torch nor the device."""

    device: str
    languages: tuple[str, ...]
    exclusive: bool
    target: Target
    tier: Tier
    judge_version: str
    operator_versions: Mapping[str, str]
    environment: Mapping[str, Any]


def chosen_languages(description: Description, wanted: Sequence[str]) -> tuple[str, ...]:
    """Those of the device that the configuration wants, all without a word. UsageError where that leaves none."""
    if not wanted:
        return description.languages
    chosen = tuple(name for name in description.languages if name in wanted)
    if not chosen:
        raise UsageError(
            f"languages={list(wanted)}: the device {description.device} takes {', '.join(description.languages)}."
        )
    return chosen


def described(survey: Survey, device_name: str) -> Survey:
    """The survey with what its workloads and a call are. Roles, weights and caches stand with every measurement."""
    from kevolve.operators.interface import interface_of
    from kevolve.operators.registry import load_operator

    operator = load_operator(survey.operator, device_name)
    names = ("dtype", "index_dtype", "lengths", "values", "layout")
    facts = {
        workload.name: {"sizes": dict(workload.sizes)} | {name: getattr(workload, name) for name in names}
        for workload in operator.workloads
        if workload.name in survey.times_us
    }
    return replace(survey, workloads=facts, call=interface_of(operator).called)


class DeviceActor:
    """Owns a device. Methods run one at a time."""

    def __init__(self, device_name: str, settings: JudgeConfig, definitions: Sequence[Definition] = ()):
        give(definitions)
        from kevolve.judge.choice import judge_of

        self.judge = judge_of(find_devices(device_name)[0], settings)
        with self.judge.lock:  # a second that keeps a run's roofline from resting on a moment when the machine was busy
            self.judge.peaks_again()

    def describe(self, operators: Sequence[str]) -> Description:
        """Everything that the driver must know."""
        from kevolve.judge.judge import judge_version
        from kevolve.operators.registry import load_operator

        device, tier = self.judge.device, self.judge.tier
        environment = {
            "sandbox": tier.describe(),
            "sandbox_tier": tier.name,
            "toolchain": device.target.toolchain,
            "architecture": device.target.architecture,
            "flags": " ".join(device.target.flags),
            "pinned": dict(device.environment()),
            "peaks": asdict(self.judge.peaks),
            "self_test": self._self_tested(),
        }
        versions = {name: load_operator(name, device.name).version for name in operators}
        return Description(
            device.key, device.languages, device.exclusive, device.target, tier, judge_version(), versions, environment
        )

    def _self_tested(self) -> str:
        """No run begins that does not pass it."""
        from kevolve.judge.selftest import has_canaries

        if not has_canaries(self.judge.device):
            return f"none for {', '.join(self.judge.device.languages)}"
        return "passed" if self.judge.settings.self_test else "off"

    def self_test(self) -> str:
        """Why the judge cannot be believed here, and what to type; empty if it can."""
        from kevolve.judge.selftest import refusal, self_test

        broken = self_test(self.judge)
        return refusal(self.judge.device.key, broken) if broken else ""

    def ready(self) -> None:
        """Answers once the actor is up."""

    def survey(self, operator: str, seed: int) -> Survey | Fault:
        """See `Judge.survey`. What the system refuses is a fault."""
        try:
            survey = self.judge.survey(operator, seed)
        except (OSError, MemoryError) as error:
            return Fault("device", f"{type(error).__name__}: {error}")
        return survey if isinstance(survey, Fault) else described(survey, self.judge.device.name)

    def measure(
        self, program: Program, built: Built, survey: Survey, seed: int, confirm: bool, to_beat: float
    ) -> Judgement:
        """See `Judge.measure`. What the system refuses is a fault."""
        try:
            return self.judge.measure(program, built, survey, seed, confirm=confirm, to_beat=to_beat)
        except (OSError, MemoryError) as error:
            fault = Fault("device", f"{type(error).__name__}: {error}")
            return Judgement(self.judge.key(program), fault, built.artefact, self.judge.tier.name, seed)

    def close(self) -> None:
        """End what the judge started."""
        self.judge.close()


@ray.remote(num_cpus=1, max_retries=0)
def build(
    program: Program, offer: Offer, settings: JudgeConfig, definitions: Sequence[Definition]
) -> Built | Rejected | Fault:
    """Screen and build in a worker of its own. `definitions` are of operators that are the user's own."""
    give(definitions)
    from kevolve.judge.prepare import prepare

    return prepare(program, offer.target, offer.tier, settings, offer.name)


class RayLease:
    """`kevolve.judge.lease.Lease` on a device actor."""

    def __init__(self, config: Config, offers: Sequence[Offer]):
        """Take the first of these offers of one device; programs are built wherever there is a like one."""
        self.config = config
        self._moving = asyncio.Lock()
        self._turn = 0
        self._take(offers[0], *_start(offers[0], config), offers)

    def _take(self, offer: Offer, actor: Any, description: Description, offers: Sequence[Offer]) -> None:
        self.offer = offer
        self.actor = actor
        self.description = description
        self.builders = [like for like in offers if like.is_like(offer)]
        self.device = description.device
        self.languages = chosen_languages(description, self.config.languages)
        self.exclusive = description.exclusive
        self.environment: Mapping[str, Any] = {**description.environment, "node": str(offer.node)}

    def key(self, program: Program) -> Key:
        """What a verdict on `program` would be a verdict on."""
        about = self.description
        version = about.operator_versions[program.operator]
        return Key(program.id, about.device, about.target.toolchain, version, about.judge_version)

    async def survey(self, operator: str, seed: int) -> Survey | Fault:
        """Baselines, checked and timed in the actor."""
        try:
            survey: Survey | Fault = await self._call("survey", operator, seed)
        except Lost as error:
            return Fault("lost", "the device's actor died during the survey", str(error))
        return survey

    async def prepare(self, program: Program) -> Built | Rejected | Fault:
        """A Ray task on a node with the device's toolchain; tried again when its worker or its node dies."""
        fault = Fault("lost", "the build's worker died")
        for _ in range(_TRIES):
            try:
                builder = await self._builder()
            except Lost as error:
                return replace(fault, detail=str(error))
            task = build.options(**builder.node.pin())
            judge, definitions = self.config.judge, given([program.operator])
            reference = task.remote(program, builder, judge, definitions)
            try:
                answer: Built | Rejected | Fault = await answer_of(reference, [builder.node.id])
            except (RayTaskError, LocalRayletDiedError):
                raise  # of our own making, or the end
            except (RayError, NodeLost) as error:
                fault = replace(fault, detail=_first_line(error))
                if isinstance(error, NodeLost | NodeDiedError | TaskUnschedulableError) and builder in self.builders:
                    self.builders.remove(builder)
            else:
                return answer
        return fault

    async def _builder(self) -> Offer:
        """The next node to build on: they take turns. Raises Lost or FaultsStopped when there is none."""
        if not self.builders:
            await self._back(self.actor)
            self.builders = self.builders or [self.offer]
        self._turn += 1
        return self.builders[self._turn % len(self.builders)]

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
        """Correctness and timing in the actor."""
        try:
            judgement: Judgement = await self._call("measure", program, built, survey, seed, confirm, to_beat)
        except Lost as error:
            fault = Fault("lost", "the device's actor died while it judged the program", str(error))
            return Judgement(self.key(program), fault, built.artefact, self.description.tier.name, seed)
        about = {"node": str(self.offer.node), "self_test": self.environment["self_test"]}
        return replace(judgement, environment={**judgement.environment, **about})

    async def _call(self, method: str, *arguments: Any) -> Any:
        """The actor's answer, asked for again if the actor dies meanwhile. Raises Lost when that does not help."""
        reason = ""
        for _ in range(_TRIES):
            actor = self.actor
            try:
                return await getattr(actor, method).remote(*arguments)
            except (RayActorError, ActorUnschedulableError) as error:  # dead, being started anew, or its node is lost
                reason = _first_line(error)
                await self._back(actor)
        raise Lost(reason)

    async def _back(self, actor: Any) -> None:
        """Until `actor` is there again, or one on another node. Raises Lost after a while, FaultsStopped if none is."""
        async with self._moving:
            if self.actor is actor and not await self._restarted():
                await self._move()

    async def _restarted(self) -> bool:
        """Has Ray started the actor anew? A call before that fails at once. False if its node is lost."""
        deadline = time.monotonic() + _RESTART_SECONDS
        while time.monotonic() < deadline:
            try:
                await self.actor.ready.remote()
            except ActorUnavailableError:
                await asyncio.sleep(0.2)
            except ActorUnschedulableError:
                return False
            except RayActorError as error:
                if await self._has_node():
                    raise Lost(_first_line(error)) from error
                return False
            else:
                return True
        if await self._has_node():
            raise Lost(f"it is not back after {_RESTART_SECONDS:.0f} s")
        return False

    async def _has_node(self) -> bool:
        """Is the node alive? Where the cluster does not answer, it is not the node that is lost."""
        nodes = await nodes_within(LOOK_SECONDS)
        return nodes is None or any(node.is_alive and node.id == self.offer.node.id for node in nodes)

    async def _move(self) -> None:
        """Go on with a like device on another node, one that has joined meanwhile included."""
        lost = self.offer
        log.warning("%s was lost with its device %s", lost.node, lost.key)
        likes = await self._likes()
        for offer in likes:
            try:
                actor, description = await asyncio.to_thread(_start, offer, self.config)
            except (UsageError, FaultsStopped) as error:
                log.warning("%s cannot take its place: %s", offer.node, error)
                continue
            self._take(offer, actor, description, likes)
            log.warning("%s takes its place; what was being judged is judged again there", offer.node)
            return
        raise FaultsStopped(
            f"the node {lost.node} was lost with its device {lost.key}, and no other node of the Ray cluster has one"
            f" with {lost.target.toolchain}: start one there (ray start --address=...), then go on"
        )

    async def _likes(self) -> list[Offer]:
        """The like devices of the nodes that are alive now. Raises Lost if the cluster does not say which are."""
        nodes = await nodes_within(LOOK_SECONDS)
        if nodes is None:
            raise Lost("the Ray cluster does not say which nodes it has left")
        try:
            reports = await asyncio.to_thread(survey_nodes, self.config, [node for node in nodes if node.is_alive])
        except UsageError:  # none that is left has the labels
            return []
        return [offer for report in reports for offer in report.offers if offer.is_like(self.offer)]

    async def close(self) -> None:
        """End the actor with everything it started. Where the cluster does not answer, it has ended, or will."""
        if await nodes_within(LOOK_SECONDS) is None:
            return
        with contextlib.suppress(RayError):  # dead already: its processes ended with it
            await self.actor.close.remote()
        ray.kill(self.actor)


def open_leases(config: Config) -> list[RayLease]:
    """A lease on every device that the configuration asks for. Ray must be up; UsageError for what is not there."""
    return [RayLease(config, offers) for offers in find_offers(config).values()]


def _start(offer: Offer, config: Config) -> tuple[Any, Description]:
    """An actor on the node that owns the device.

    UsageError if it does not come up there, FaultsStopped if its judge cannot be believed there.
    """
    # One actor per device: a plain GPU task starts a new process each time. Ray does not retry: we do, and count.
    options = {"max_restarts": -1, "max_task_retries": 0, **offer.options, **offer.node.pin()}
    remote: Any = ray.remote(**options)(DeviceActor)
    actor = remote.remote(offer.name, config.judge, given(config.operators))
    try:
        description: Description = ray.get(actor.describe.remote(config.operators), timeout=_START_SECONDS)
        refusal = ray.get(actor.self_test.remote(), timeout=_START_SECONDS) if config.judge.self_test else ""
    except GetTimeoutError:
        reason = f"it did not start within {_START_SECONDS:.0f} s; another run may have the device"
    except RayError as error:
        reason = last_line(error)
    else:
        if not refusal:
            return actor, description
        ray.kill(actor)
        raise FaultsStopped(refusal)
    ray.kill(actor)
    raise UsageError(f"the device {offer.key} on {offer.node} cannot be used: {reason}.\n  See `kevolve doctor` there.")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
