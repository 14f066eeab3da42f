"""The real lease: a judge in a long-lived Ray actor per device, and builds as Ray tasks.

Candidate programs never run in a Ray worker: the actor owns the sandboxed fork server, and everything that it
started ends with it. Ray starts a dead actor anew; a call that was lost with it is made once more, and comes back as a
Fault if that is lost, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayError, WorkerCrashedError

from kevolve.config import Config, JudgeConfig
from kevolve.devices.registry import find_devices
from kevolve.judge.lease import Survey
from kevolve.judge.sandbox.tiers import Tier
from kevolve.languages.language import Built, Target
from kevolve.operators.custom.definition import Definition
from kevolve.operators.custom.given import give, given
from kevolve.program import Program
from kevolve.verdict import Fault, Judgement, Key, Rejected

_TRIES = 2  # a build or a call whose process died is tried once more
_RESTART_SECONDS = 60.0


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


class DeviceActor:
    """Owns a device. Methods run one at a time."""

    def __init__(self, device_name: str, settings: JudgeConfig, definitions: Sequence[Definition] = ()):
        give(definitions)
        from kevolve.judge.judge import Judge

        self.judge = Judge(find_devices(device_name)[0], settings)

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
        }
        versions = {name: load_operator(name).version for name in operators}
        return Description(
            device.key, device.languages, device.exclusive, device.target, tier, judge_version(), versions, environment
        )

    def ready(self) -> None:
        """Answers once the actor is up."""

    def survey(self, operator: str, seed: int) -> Survey | Fault:
        """See `Judge.survey`."""
        return self.judge.survey(operator, seed)

    def measure(self, program: Program, built: Built, survey: Survey, seed: int, confirm: bool) -> Judgement:
        """See `Judge.measure`."""
        return self.judge.measure(program, built, survey, seed, confirm=confirm)

    def close(self) -> None:
        """End what the judge started."""
        self.judge.close()


@ray.remote(num_cpus=1, max_retries=0)
def build(
    program: Program, target: Target, tier: Tier, settings: JudgeConfig, definitions: Sequence[Definition]
) -> Built | Rejected | Fault:
    """Screen and build in a worker of its own. `definitions` are of operators that are the user's own."""
    give(definitions)
    from kevolve.judge.prepare import prepare

    return prepare(program, target, tier, settings)


class RayLease:
    """`kevolve.judge.lease.Lease` on a device actor."""

    def __init__(self, actor: Any, description: Description, settings: JudgeConfig):
        self.actor = actor
        self.description = description
        self.settings = settings
        self.device = description.device
        self.languages = description.languages
        self.exclusive = description.exclusive
        self.environment = description.environment

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
        """A Ray task; tried again when its worker dies."""
        fault = Fault("lost", "the build's worker died")
        for _ in range(_TRIES):
            try:
                about = self.description
                answer: Built | Rejected | Fault = await build.remote(
                    program, about.target, about.tier, self.settings, given([program.operator])
                )
            except WorkerCrashedError as error:
                fault = replace(fault, detail=_first_line(error))
            else:
                return answer
        return fault

    async def measure(
        self, program: Program, built: Built, survey: Survey, seed: int, *, confirm: bool = False
    ) -> Judgement:
        """Correctness and timing in the actor."""
        try:
            judgement: Judgement = await self._call("measure", program, built, survey, seed, confirm)
        except Lost as error:
            fault = Fault("lost", "the device's actor died while it judged the program", str(error))
            return Judgement(self.key(program), fault, built.artefact, self.description.tier.name, seed)
        return judgement

    async def _call(self, method: str, *arguments: Any) -> Any:
        """The actor's answer, asked for again if the actor dies meanwhile. Raises Lost when that does not help."""
        reason = ""
        for _ in range(_TRIES):
            try:
                return await getattr(self.actor, method).remote(*arguments)
            except RayActorError as error:  # dead, or being started anew
                reason = _first_line(error)
                await self._back()
        raise Lost(reason)

    async def _back(self) -> None:
        """Until Ray has started the actor anew: a call before that fails at once. Raises Lost after a while."""
        deadline = time.monotonic() + _RESTART_SECONDS
        while time.monotonic() < deadline:
            try:
                await self.actor.ready.remote()
            except ActorUnavailableError:
                await asyncio.sleep(0.2)
            except RayActorError as error:
                raise Lost(_first_line(error)) from error
            else:
                return
        raise Lost(f"it is not back after {_RESTART_SECONDS:.0f} s")

    async def close(self) -> None:
        """End the actor with everything it started."""
        with contextlib.suppress(RayError):  # dead already: its processes ended with it
            await self.actor.close.remote()
        ray.kill(self.actor)


def open_leases(config: Config) -> list[RayLease]:
    """A lease on every device that the configuration asks for. Ray must be running; UsageError for what is not here."""
    leases = []
    for device in find_devices(config.device.name):
        # One actor per device: a plain GPU task starts a new process each time. Ray does not retry: we do, and count.
        remote: Any = ray.remote(max_restarts=-1, max_task_retries=0, **device.ray_options())(DeviceActor)
        actor = remote.remote(device.name, config.judge, given(config.operators))
        description: Description = ray.get(actor.describe.remote(config.operators))
        leases.append(RayLease(actor, description, config.judge))
    return leases


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
