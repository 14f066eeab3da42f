"""The judge: turns a program into a verdict. The only component whose word counts.

Stages, cheapest first: screen, build (`prepare.py`), correctness, timing, profile. The judge knows no islands and no
store; it is a pure function of (program, operator, device, seed) with effects only in its own scratch memory.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from kevolve.judge.flush import Flush
from kevolve.judge.lease import Survey
from kevolve.judge.machine_lock import MachineLock
from kevolve.judge.prepare import prepare
from kevolve.judge.profile import profile
from kevolve.judge.race import Rules, odd_of, race
from kevolve.judge.sandbox.confinement import PR_SET_TIMERSLACK, prctl
from kevolve.judge.sandbox.exits import ChildEnded, ChildLate, SandboxFault, out_of_memory_kills
from kevolve.judge.sandbox.process import ForkServer
from kevolve.judge.sandbox.tiers import Tier, find_tier
from kevolve.judge.slots import SLOTS_BYTES
from kevolve.judge.spot_check import spot_check
from kevolve.judge.streams import Streams, new_secret
from kevolve.judge.survey import Surveyor, take_survey
from kevolve.judge.survey_cache import SurveyCache
from kevolve.judge.timing import Disturbed, Stopwatch
from kevolve.languages.language import Built
from kevolve.languages.registry import language
from kevolve.operators.operator import Operator, Workload
from kevolve.operators.registry import load_operator
from kevolve.program import Program
from kevolve.verdict import Fault, Fitness, Judgement, Key, Rejected, Role, Scored, Stage, Verdict

_ARENA_BYTES = 2 << 30  # sparse: only what is touched exists
_CALL_SECONDS = 5.0
_CHECKED_SHARE = 0.3  # of the timed pairs of a first look; of a program that is looked at closely all are checked
_TIMED: tuple[Role, ...] = ("search", "holdout")
_ODD_WHEN_CONFIRMED = 3  # sizes on which each kind of odd content is tried; one in a first look
_SPOT_CHECKS = 3  # on each workload, of a program that is looked at closely; otherwise one on every other workload
_PRECISE, _PRECISE_WHEN_CONFIRMED = 0.02, 0.01  # half an interval at which it is narrow enough


@dataclass(frozen=True)
class Trying:
    """One judgement's circumstances. `closely`: to confirm it, or because its text looks suspicious."""

    survey: Survey
    draws: Draws
    streams: Streams
    confirm: bool
    to_beat: float
    closely: bool

    def odd(self) -> tuple[list[Workload], dict[str, list[Workload]]]:
        """What it is tried on beside the operator's workloads: in calls of their own, and among timed blocks of others.

        The latter by the name of whose blocks these are.
        """
        operator, times = self.draws.operator, _ODD_WHEN_CONFIRMED if self.confirm else 1
        odd = self.draws.odd(_TIMED if self.confirm else _TIMED[:1], times)
        timed = [w for w in operator.workloads if w.role == "search" or (self.confirm and w.role == "holdout")]
        among = {workload.name: odd_of(operator, odd, workload) for workload in timed}
        alone = [other for other in odd if not any(other in found for found in among.values())]
        return [*alone, *operator.unseen(self.draws.streams.chooser("unseen"))], among


@cache
def judge_version() -> str:
    """Changes with the judge's own code: part of a verdict's key."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


class Judge:
    """A judge on one device of this machine. Holds its fork servers, its baseline process and the inputs' memory."""

    def __init__(self, device: Device, settings: JudgeConfig):
        _keep_freed_memory()
        prctl(PR_SET_TIMERSLACK, 1)  # ns: how much later than asked a sleep may end
        torch.set_num_threads(1)  # the judge's own work is small: threads that wait for each other only slow it down
        self.device = device
        self.settings = settings
        self.tier: Tier = find_tier(settings.sandbox, settings.require)
        self.lock = MachineLock(device.key)
        with self.lock:
            self.peaks = device.peaks()
        self.secret = new_secret()
        self.inputs = Arena(_ARENA_BYTES, read_only=True, reserved=SLOTS_BYTES)
        self.flush = Flush(device.cache_bytes)
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
                streams = Streams(self.secret, seed)
                draws = Draws(operator, streams)
                surveyor = Surveyor(operator, self._baseline_process(), arenas, draws, self.flush, streams)
                survey = take_survey(surveyor, self.device.key, baselines)
        except BaselineFault as error:
            self.drop_baselines()
            return Fault("device", str(error))
        finally:
            arenas.outputs.close()
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
        suspicions = built.facts.get("suspicions", "")
        streams = Streams(self.secret, seed)
        trying = Trying(survey, draws, streams, confirm, to_beat, closely=confirm or bool(suspicions))
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
            **({"suspicions": suspicions} if suspicions else {}),
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
        self.drop_baselines()

    def _draws(self, operator: Operator, seed: int, confirm: bool) -> Draws:
        """The inputs to check a program on: a confirmation has its own, other judgements share some."""
        draws = self.draws.get(operator.name)
        if confirm:
            return Draws(operator, Streams(self.secret, seed))
        if draws is None or draws.is_used_up():
            draws = self.draws[operator.name] = Draws(operator, Streams(self.secret, seed))
        draws.programs += 1
        return draws

    def _verdict(self, program: Program, built: Built, trying: Trying) -> Verdict:
        operator = self.operator(program.operator)
        stage: Stage = "correctness"
        kills = out_of_memory_kills()
        memory_bytes = int(self.settings.memory_gib * (1 << 30))
        patience = Patience(_CALL_SECONDS, self.settings.run_seconds)
        arenas = Arenas(self.inputs, Arena(_ARENA_BYTES, read_only=False))
        try:
            server = self._server(program.language)
            sizes = (arenas.inputs.size, arenas.outputs.size)
            cpu_seconds = int(self.settings.run_seconds + 10) * (os.cpu_count() or 1)
            child = server.spawn(arenas.inputs.fd, arenas.outputs.fd, sizes, memory_bytes, cpu_seconds)
            runner = Runner(operator, built, child, patience, arenas)
            try:
                alone, among = trying.odd()
                check_all(operator, runner, trying.draws, alone)
                stage = "timing"
                scored = self._time(operator, runner, trying, among)
            except Rejection as error:
                server.kill()
                return error.verdict
            except Disturbed as error:
                server.kill()
                return Fault("device", str(error))
            except (ChildEnded, ChildLate) as error:
                ended = server.kill()
                if type(error) is ChildEnded and ended.was_picked_for_memory(memory_bytes, kills):
                    return Fault("device", "the machine ran out of memory and ended the program")
                return runner.rejection(error, ended, memory_bytes, stage)
            server.kill()
            return scored
        except SandboxFault as error:
            self._drop_server(program.language)
            return Fault("sandbox", str(error))
        except BaselineFault as error:
            self.drop_baselines()
            self._drop_server(program.language)
            return Fault("device", str(error))
        finally:
            arenas.outputs.close()

    def _time(
        self, operator: Operator, runner: Runner, trying: Trying, odd: Mapping[str, Sequence[Workload]]
    ) -> Scored:
        """Timing on the search workloads, and on the holdout ones to confirm, `odd` contents among it.

        Raises Rejection.
        """
        watch = Stopwatch(
            operator, runner, self._baseline_process(), trying.draws, self.peaks, self.peaks_again, self.flush,
            trying.streams, 1.0 if trying.closely else _CHECKED_SHARE,
        )  # fmt: skip
        trials = []
        for workload in operator.workloads:
            if workload.role == "adversarial" or (workload.role == "holdout" and not trying.confirm):
                continue
            baseline = trying.survey.fastest(workload.name)
            if (operator.name, workload.name, baseline) not in self.warmed:
                watch.warm(workload, baseline)
                self.warmed.add((operator.name, workload.name, baseline))
            trials.append(watch.begin(workload, baseline, odd.get(workload.name, ())))
        race(watch, trials, [t for t in trials if t.workload.role == "search"], self._rules(trying))
        for trial in trials:
            watch.odd_that_are_due(trial)
            watch.believable(trial)
            for _ in range(_SPOT_CHECKS if trying.closely else trying.streams.decisions.randrange(2)):
                spot_check(watch, trial)
        cores_used = watch.cpu_seconds / watch.busy_seconds
        cores = int(self.device.environment().get("OMP_NUM_THREADS", "1"))
        measurements = [watch.measurement(trial) for trial in trials]
        return Scored(
            Fitness.of(m for m in measurements if m.role == "search"),
            tuple(measurements),
            profile(measurements, cores, cores_used, self.peaks),
        )

    def _rules(self, trying: Trying) -> Rules:
        if trying.confirm:
            return Rules(_half(self.settings.confirm_pairs), _PRECISE_WHEN_CONFIRMED, may_drop=False)
        return Rules(_half(self.settings.max_pairs), _PRECISE, trying.to_beat)

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
            spoken = language(language_name)
            server = ForkServer(self.tier, spoken.load_path, self.device.environment(), spoken.imports)
            self.servers[language_name] = server
        return server

    def _drop_server(self, language_name: str) -> None:
        server = self.servers.pop(language_name, None)
        if server is not None:
            server.close()

    def _baseline_process(self) -> BaselineProcess:
        if self.baselines is None or not self.baselines.alive():
            self.drop_baselines()
            environment = self.device.environment()
            self.baselines = BaselineProcess(environment, self.device.name, self.inputs.fd, self.inputs.size)
        return self.baselines

    def drop_baselines(self) -> None:
        """End the baseline process: the next one that is needed knows what this process has been given by then."""
        if self.baselines is not None:
            self.baselines.close()
        self.baselines = None
        self.warmed.clear()


def _half(pairs: int) -> int:
    return -(-pairs // 2)


def _keep_freed_memory() -> None:
    """Let this process's allocator keep what is freed: a fresh 16 MB tensor costs more in page faults than in use."""
    libc = ctypes.CDLL(None)
    trim_threshold, mmap_threshold = -1, -3  # mallopt(3)
    libc.mallopt(trim_threshold, 1 << 30)
    libc.mallopt(mmap_threshold, 1 << 30)
