"""The judge on a GPU of this machine: the stages of `kevolve.judge.judge` on device memory; see the package."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

from kevolve.config import JudgeConfig
from kevolve.devices.cuda_driver import Driver
from kevolve.devices.device import Device, Peaks
from kevolve.judge.baselines import BaselineFault
from kevolve.judge.correctness import Patience, Rejection, reject_if
from kevolve.judge.cuda.ahead import compile_ahead, processes_here
from kevolve.judge.cuda.baselines import BaselineProcess
from kevolve.judge.cuda.content import Block
from kevolve.judge.cuda.draws import Draws
from kevolve.judge.cuda.memory import Arena, Shared
from kevolve.judge.cuda.profile import profile
from kevolve.judge.cuda.runner import Runner
from kevolve.judge.cuda.server import fork_server
from kevolve.judge.cuda.survey import Surveyor
from kevolve.judge.cuda.timing import Stopwatch
from kevolve.judge.judge import judge_version
from kevolve.judge.lease import Survey
from kevolve.judge.machine_lock import MachineLock
from kevolve.judge.prepare import prepare
from kevolve.judge.race import Rules, race
from kevolve.judge.sandbox.exits import ChildEnded, ChildLate, SandboxFault
from kevolve.judge.sandbox.process import ForkServer
from kevolve.judge.sandbox.tiers import Tier, find_tier
from kevolve.judge.streams import Streams, new_secret
from kevolve.judge.survey_cache import SurveyCache
from kevolve.languages.language import Built
from kevolve.operators.operator import Operator
from kevolve.operators.registry import load_operator
from kevolve.program import Program
from kevolve.verdict import Fault, Fitness, Judgement, Key, Rejected, Role, Scored, Verdict

_MOST_SHARED_BYTES = 16 << 30  # each of inputs and outputs; less on a device with less memory
_SHARE_OF_MEMORY = 8
_HOST_BYTES = 8 << 30  # of address space, beyond what the driver has reserved
_CALL_SECONDS = 5.0
_PRECISE, _PRECISE_WHEN_CONFIRMED = 0.02, 0.01  # half an interval at which it is narrow enough


def is_compiled(baseline: str) -> bool:
    """Compiled forms are named so."""
    return baseline.startswith("compiled")


@dataclass(frozen=True)
class Trying:
    """One judgement's circumstances."""

    survey: Survey
    draws: Draws
    streams: Streams
    confirm: bool
    to_beat: float


class CudaJudge:
    """A judge on one GPU. Holds its fork server, its baseline process and the memory that they share."""

    def __init__(self, device: Device, settings: JudgeConfig):
        self.device = device
        self.settings = settings
        self.tier: Tier = find_tier(settings.sandbox, settings.require)
        self.secret = new_secret()
        torch.zeros(1, device="cuda")  # PyTorch's context, which the driver's own calls then find current
        self.driver = Driver()
        self.driver.start()
        # Of this GPU: another one of the kind in the same machine is no reason to wait.
        self.lock = MachineLock(f"{device.key}-{self.driver.pci_address().replace(':', '-')}")
        with self.lock:
            self.peaks = device.peaks()
        size = min(_MOST_SHARED_BYTES, self.driver.memory() // _SHARE_OF_MEMORY)
        self.inputs, self.outputs = Shared(self.driver, size), Shared(self.driver, size)
        self.arenas = Arena(self.inputs), Arena(self.outputs)
        self.servers: dict[str, ForkServer] = {}  # by language
        self.baselines: BaselineProcess | None = None
        self.warmed: set[tuple[str, str, str]] = set()
        self.operators: dict[str, Operator] = {}
        self.draws: dict[str, Draws] = {}

    def key(self, program: Program) -> Key:
        """What a verdict on `program` would be a verdict on."""
        operator = self.operator(program.operator)
        return Key(program.id, self.device.key, self.device.target.toolchain, operator.version, judge_version())

    def prepare(self, program: Program) -> Built | Rejected | Fault:
        """Screen and build, here and now."""
        return prepare(program, self.device.target, self.tier, self.settings, self.device.name)

    def survey(self, operator_name: str, seed: int) -> Survey | Fault:
        """Check and time every baseline of an operator, or remember what that gave on this machine."""
        operator = self.operator(operator_name)
        baselines = [name for name in operator.baselines(self.device.name) if self._counts(name)]
        cache = SurveyCache(self.device, operator, baselines, judge_version())
        remembered = cache.load()
        if remembered is not None:
            return remembered
        try:
            with self.lock:
                slow = [name for name in baselines if is_compiled(name)]
                processes = processes_here(self.driver.memory())
                compile_ahead(operator, slow, processes, self.device.environment(), self.device.name)
                streams = Streams(self.secret, seed)
                draws, cache_bytes = Draws(operator, streams), self.device.cache_bytes
                surveyor = Surveyor(operator, self._baseline_process(), self.arenas, draws, streams, cache_bytes)
                survey = surveyor.take(self.device.key, baselines)
        except BaselineFault as error:
            self.drop_baselines()
            return Fault("device", str(error))
        self.warmed |= {(operator.name, w, b) for w, times in survey.times_us.items() for b in times}
        cache.save(survey)
        return survey

    def measure(
        self,
        program: Program,
        built: Built,
        survey: Survey,
        seed: int,
        *,
        confirm: bool = False,
        to_beat: float = 0.0,
    ) -> Judgement:
        """Correctness on every workload, then timing on the search workloads (holdout too to confirm).

        `to_beat` is the best speedup that the search has: a program that surely has less is measured less.
        """
        start = time.monotonic()
        draws = self._draws(self.operator(program.operator), seed, confirm)
        trying = Trying(survey, draws, Streams(self.secret, seed), confirm, to_beat)
        before = self.device.conditions()
        with self.lock:
            verdict = self._verdict(program, built, trying)
        if not self.device.healthy():
            verdict = Fault("device", f"{self.device.key} is not healthy after this program")
        seconds = time.monotonic() - start
        environment = {
            **self.device.environment(),
            "toolchain": self.device.target.toolchain,
            "inputs_seed": draws.streams.seed,
            "conditions": {"before": before, "after": self.device.conditions()},
            **built.facts,
        }
        return Judgement(self.key(program), verdict, built.artefact, self.tier.name, seed, seconds, environment)

    def peaks_again(self) -> Peaks:
        """Measure the peaks once more, while no program runs: they may have been measured beside other work."""
        self.peaks = self.device.peaks(again=True)
        return self.peaks

    def close(self) -> None:
        """End every process that this judge started."""
        self._drop_servers()
        self.drop_baselines()

    def operator(self, name: str) -> Operator:
        """The operator, loaded once, with this device's workloads."""
        if name not in self.operators:
            self.operators[name] = load_operator(name, self.device.name)
        return self.operators[name]

    def _draws(self, operator: Operator, seed: int, confirm: bool) -> Draws:
        """The inputs to check a program on: a confirmation has its own, other judgements share some."""
        if confirm:
            return Draws(operator, Streams(self.secret, seed))
        draws = self.draws.get(operator.name)
        if draws is None or draws.is_used_up():
            self.draws.clear()  # of other operators, too: they hold much of the device's memory
            draws = self.draws[operator.name] = Draws(operator, Streams(self.secret, seed))
        draws.programs += 1
        return draws

    def _verdict(self, program: Program, built: Built, trying: Trying) -> Verdict:
        operator = self.operator(program.operator)
        self.outputs.bytes.fill_(trying.streams.decisions.randrange(1, 255))  # what earlier programs have answered
        torch.cuda.synchronize()
        runner = None
        try:
            server = self._server(program.language)
            child: Any = server.spawn(
                self.inputs.descriptor, self.outputs.descriptor, (self.inputs.size, self.outputs.size),
                _HOST_BYTES, int(self.settings.run_seconds) + 10,
            )  # fmt: skip
            try:
                runner = Runner(operator, built, child, Patience(_CALL_SECONDS, self.settings.run_seconds))
                self._check_all(operator, runner, trying)
                runner.stage = "timing"
                return self._time(operator, runner, trying)
            except Rejection as error:
                return error.verdict
            except (ChildEnded, ChildLate) as error:
                ended = server.kill()
                if runner is None:
                    return Rejected("correctness", f"{ended.describe()} while it was loaded", ended.output)
                return runner.rejection(error, ended)
            finally:
                if server.child is not None:
                    server.kill()
        except SandboxFault as error:
            self._drop_servers()
            return Fault("sandbox", str(error))
        except BaselineFault as error:
            self.drop_baselines()
            return Fault("device", str(error))
        except (MemoryError, torch.OutOfMemoryError) as error:
            return Fault("device", f"the judge itself ran out of the device's memory: {error}")

    def _check_all(self, operator: Operator, runner: Runner, trying: Trying) -> None:
        """Every workload, and timed sizes with odd content. Raises Rejection with the first wrong answer."""
        roles: tuple[Role, ...] = ("search", "holdout") if trying.confirm else ("search",)
        odd = trying.draws.odd(roles, 1)
        for workload in (*operator.workloads, *odd):
            block = Block(operator, workload, self.arenas, trying.streams)
            draw = trying.draws.of(workload)
            call = block.place(draw.inputs)
            runner.prepare(workload.name, [call])
            torch.cuda.synchronize()
            runner.run()
            block.reject_if_spilled("correctness")
            reject_if(draw.check(call.answer()), workload, "correctness")

    def _time(self, operator: Operator, runner: Runner, trying: Trying) -> Scored:
        """Timing on the search workloads, and on the holdout ones to confirm. Raises Rejection."""
        watch = Stopwatch(
            operator, runner, self._baseline_process(), self.arenas, self.peaks, self.peaks_again, trying.streams,
            self.device.cache_bytes, trying.confirm,
        )  # fmt: skip
        trials = []
        for workload in operator.workloads:
            if workload.role == "adversarial" or (workload.role == "holdout" and not trying.confirm):
                continue
            baseline = trying.survey.fastest(workload.name)
            if (operator.name, workload.name, baseline) not in self.warmed:
                watch.warm(workload, baseline)
                self.warmed.add((operator.name, workload.name, baseline))
            trials.append(watch.begin(workload, baseline))
        race(watch, trials, [t for t in trials if t.workload.role == "search"], self._rules(trying))
        for trial in trials:
            watch.believable(trial)
        measurements = [watch.measurement(trial) for trial in trials]
        fitness = Fitness.of(m for m in measurements if m.role == "search")
        return Scored(fitness, tuple(measurements), profile(measurements, runner.resources, self.peaks))

    def _rules(self, trying: Trying) -> Rules:
        if trying.confirm:
            return Rules((self.settings.confirm_pairs + 1) // 2, _PRECISE_WHEN_CONFIRMED, may_drop=False)
        return Rules((self.settings.max_pairs + 1) // 2, _PRECISE, trying.to_beat)

    def _counts(self, baseline: str) -> bool:
        """Is the baseline one of those that the settings ask for?"""
        return self.settings.baselines == "all" or not is_compiled(baseline)

    def _server(self, language_name: str) -> ForkServer:
        server = self.servers.get(language_name)
        if server is None or not server.alive():
            workspace_bytes = int(self.settings.memory_gib * (1 << 30))
            architecture, environment = self.device.target.architecture, self.device.environment()
            server = fork_server(self.tier, language_name, architecture, environment, workspace_bytes)
            self.servers[language_name] = server
        return server

    def _drop_servers(self) -> None:
        for server in self.servers.values():
            server.close()
        self.servers.clear()

    def _baseline_process(self) -> BaselineProcess:
        if self.baselines is None or not self.baselines.alive():
            self.drop_baselines()
            device = self.device
            self.baselines = BaselineProcess(
                device.environment(), device.name, device.target.architecture, self.inputs, self.outputs
            )
        return self.baselines

    def drop_baselines(self) -> None:
        """End the baseline process: the next one that is needed knows what this process has been given by then."""
        if self.baselines is not None:
            self.baselines.close()
        self.baselines = None
        self.warmed.clear()
