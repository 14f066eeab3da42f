"""The judge: turns a program into a verdict. The only component whose word counts.

Stages, cheapest first: screen, build (`prepare.py`), correctness, timing, profile. The judge knows no islands and no
store; it is a pure function of (program, operator, device, seed) with effects only in its own scratch memory.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import time
from functools import cache
from pathlib import Path

import torch

from kevolve.config import JudgeConfig
from kevolve.devices.device import Device, Peaks
from kevolve.judge.arena import Arena
from kevolve.judge.baselines import BaselineFault, BaselineProcess
from kevolve.judge.call import Arenas
from kevolve.judge.correctness import Patience, Rejection, Runner, check_all
from kevolve.judge.draws import Draws
from kevolve.judge.lease import Survey
from kevolve.judge.machine_lock import MachineLock
from kevolve.judge.prepare import prepare
from kevolve.judge.profile import profile
from kevolve.judge.sandbox.process import ChildEnded, ChildLate, ForkServer, SandboxFault
from kevolve.judge.sandbox.tiers import Tier, find_tier
from kevolve.judge.survey import Surveyor, take_survey
from kevolve.judge.survey_cache import SurveyCache
from kevolve.judge.timing import Stopwatch
from kevolve.languages.language import Built
from kevolve.languages.registry import language
from kevolve.operators.operator import Operator
from kevolve.operators.registry import load_operator
from kevolve.program import Program
from kevolve.verdict import Fault, Fitness, Judgement, Key, Rejected, Scored, Stage, Verdict

_ARENA_BYTES = 2 << 30  # sparse: only what is touched exists
_CALL_SECONDS = 5.0


@cache
def judge_version() -> str:
    """Changes with the judge's own code: part of a verdict's key."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


class Judge:
    """A judge on one device of this machine. Holds its fork servers, its baseline process and the inputs' memory."""

    def __init__(self, device: Device, settings: JudgeConfig):
        _keep_freed_memory()
        torch.set_num_threads(1)  # the judge's own work is small: threads that wait for each other only slow it down
        self.device = device
        self.settings = settings
        self.tier: Tier = find_tier(settings.sandbox)
        self.lock = MachineLock(device.key)
        with self.lock:
            self.peaks = device.peaks()
        self.inputs = Arena(_ARENA_BYTES, read_only=True)
        self.servers: dict[str, ForkServer] = {}
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
        return prepare(program, self.device.target, self.tier, self.settings)

    def survey(self, operator_name: str, seed: int) -> Survey | Fault:
        """Check and time every baseline of an operator, or remember what that gave on this machine."""
        operator = self.operator(operator_name)
        baselines = [name for name in operator.baselines(self.device.name) if self._counts(name)]
        cache = SurveyCache(self.device, operator, baselines, judge_version())
        remembered = cache.load()
        if remembered is not None:
            return remembered
        arenas = Arenas(self.inputs, Arena(_ARENA_BYTES, read_only=False))
        try:
            with self.lock:
                draws = Draws(operator, seed)
                surveyor = Surveyor(operator, self._baseline_process(), arenas, draws, _generator(seed))
                survey = take_survey(surveyor, self.device.key, baselines)
        except BaselineFault as error:
            self._drop_baselines()
            return Fault("device", str(error))
        finally:
            arenas.outputs.close()
        self.warmed |= {(operator.name, w, b) for w, times in survey.times_us.items() for b in times}
        cache.save(survey)
        return survey

    def measure(self, program: Program, built: Built, survey: Survey, seed: int, *, confirm: bool = False) -> Judgement:
        """Correctness on every workload, then timing on the search workloads (holdout too to confirm)."""
        start = time.monotonic()
        draws = self._draws(self.operator(program.operator), seed, confirm)
        with self.lock:
            verdict = self._verdict(program, built, survey, draws, seed, confirm)
        if not self.device.healthy():
            verdict = Fault("device", f"{self.device.key} is not healthy after this program")
        seconds = time.monotonic() - start
        environment = {
            **self.device.environment(),
            "toolchain": self.device.target.toolchain,
            "inputs_seed": draws.seed,
        }
        return Judgement(self.key(program), verdict, built.artefact, self.tier.name, seed, seconds, environment)

    def peaks_again(self) -> Peaks:
        """Measure the peaks once more, while no program runs: they may have been measured beside other work."""
        self.peaks = self.device.peaks(again=True)
        return self.peaks

    def close(self) -> None:
        """End every process that this judge started."""
        for server in self.servers.values():
            server.close()
        self.servers.clear()
        self._drop_baselines()

    def _draws(self, operator: Operator, seed: int, confirm: bool) -> Draws:
        """The inputs to check a program on: a confirmation has its own, other judgements share some."""
        draws = self.draws.get(operator.name)
        if confirm:
            return Draws(operator, seed)
        if draws is None or draws.is_used_up():
            draws = self.draws[operator.name] = Draws(operator, seed)
        draws.programs += 1
        return draws

    def _verdict(
        self, program: Program, built: Built, survey: Survey, draws: Draws, seed: int, confirm: bool
    ) -> Verdict:
        operator = self.operator(program.operator)
        stage: Stage = "correctness"
        memory_bytes = int(self.settings.memory_gib * (1 << 30))
        patience = Patience(_CALL_SECONDS, self.settings.run_seconds)
        arenas = Arenas(self.inputs, Arena(_ARENA_BYTES, read_only=False))
        rng = _generator(seed)
        try:
            server = self._server(program.language)
            sizes = (arenas.inputs.size, arenas.outputs.size)
            cpu_seconds = int(self.settings.run_seconds + 10) * (os.cpu_count() or 1)
            child = server.spawn(arenas.inputs.fd, arenas.outputs.fd, sizes, memory_bytes, cpu_seconds)
            runner = Runner(operator, built, child, patience)
            try:
                check_all(operator, runner, arenas, draws)
                stage = "timing"
                baselines = self._baseline_process()
                watch = Stopwatch(operator, runner, baselines, arenas, draws, self.peaks, self.peaks_again)
                scored = self._time(operator, watch, rng, survey, confirm)
            except Rejection as error:
                server.kill()
                return error.verdict
            except (ChildEnded, ChildLate) as error:
                return runner.rejection(error, server.kill(), memory_bytes, stage)
            server.kill()
            return scored
        except SandboxFault as error:
            self._drop_server(program.language)
            return Fault("sandbox", str(error))
        except BaselineFault as error:
            self._drop_baselines()
            self._drop_server(program.language)
            return Fault("device", str(error))
        finally:
            arenas.outputs.close()

    def _time(
        self, operator: Operator, watch: Stopwatch, rng: torch.Generator, survey: Survey, confirm: bool
    ) -> Scored:
        max_pairs = self.settings.confirm_pairs if confirm else self.settings.max_pairs
        measurements = []
        cpu_before = watch.runner.child.cpu_seconds()
        for workload in operator.workloads:
            if workload.role == "adversarial" or (workload.role == "holdout" and not confirm):
                continue
            baseline = survey.fastest(workload.name)
            if (operator.name, workload.name, baseline) not in self.warmed:
                watch.warm(workload, baseline, rng)
                self.warmed.add((operator.name, workload.name, baseline))
            measurements.append(watch.measure(workload, baseline, rng, max_pairs))
        cores_used = (watch.runner.child.cpu_seconds() - cpu_before) / watch.busy_seconds
        cores = int(self.device.environment().get("OMP_NUM_THREADS", "1"))
        return Scored(
            Fitness.of(m for m in measurements if m.role == "search"),
            tuple(measurements),
            profile(measurements, cores, cores_used, self.peaks),
        )

    def operator(self, name: str) -> Operator:
        """The operator, loaded once."""
        if name not in self.operators:
            self.operators[name] = load_operator(name)
        return self.operators[name]

    def _counts(self, baseline: str) -> bool:
        """Is the baseline one of those that the settings ask for? Compiled forms are named so."""
        return self.settings.baselines == "all" or not baseline.startswith("compiled")

    def _server(self, language_name: str) -> ForkServer:
        server = self.servers.get(language_name)
        if server is None or not server.alive():
            server = ForkServer(self.tier, language(language_name).load_path, self.device.environment())
            self.servers[language_name] = server
        return server

    def _drop_server(self, language_name: str) -> None:
        server = self.servers.pop(language_name, None)
        if server is not None:
            server.close()

    def _baseline_process(self) -> BaselineProcess:
        if self.baselines is None or not self.baselines.alive():
            self._drop_baselines()
            environment = self.device.environment()
            self.baselines = BaselineProcess(environment, self.device.name, self.inputs.fd, self.inputs.size)
        return self.baselines

    def _drop_baselines(self) -> None:
        if self.baselines is not None:
            self.baselines.close()
        self.baselines = None
        self.warmed.clear()


def _keep_freed_memory() -> None:
    """Let this process's allocator keep what is freed: a fresh 16 MB tensor costs more in page faults than in use."""
    libc = ctypes.CDLL(None)
    trim_threshold, mmap_threshold = -1, -3  # mallopt(3)
    libc.mallopt(trim_threshold, 1 << 30)
    libc.mallopt(mmap_threshold, 1 << 30)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
