"""The judge of a device that is not here: screen, build, and Triton's interpreter on small inputs. Nothing is timed.

Its best verdict is `Fault("unverified")`: what a program does on the chip stays unknown, so it is no score, whatever
was found. A program that is refused, does not build, or is wrong in the interpreter is rejected as anywhere else.

The interpreter runs a program's kernels as Python, in a confined process that ends with the judgement. It is given
inputs and room for outputs, guarded as on any device, and never what is right. Its limits shape what is tried:

- It is slow. Workloads are tried smallest first until the time is up; larger ones with sizes halved until they fit.
- Its bfloat16 is silently wrong (it computes on the bits as integers), so those workloads are tried in float32.
- It knows no wavefronts, no races and no units of the chip.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kevolve.config import JudgeConfig
from kevolve.devices.device import Device
from kevolve.errors import UsageError
from kevolve.judge.correctness import Rejection
from kevolve.judge.draws import Draws
from kevolve.judge.interpreted import Calls, for_the_interpreter
from kevolve.judge.judge import judge_version
from kevolve.judge.lease import Survey
from kevolve.judge.prepare import Scratch, prepare
from kevolve.judge.sandbox.exits import printable
from kevolve.judge.sandbox.tiers import find_tier
from kevolve.judge.screen import screen
from kevolve.judge.streams import Streams, new_secret
from kevolve.languages.language import Built
from kevolve.languages.triton import interpreting
from kevolve.languages.triton.build import triton_packages
from kevolve.operators.operator import Operator, Workload
from kevolve.operators.registry import load_operator
from kevolve.program import Program
from kevolve.verdict import Fault, Judgement, Key, Rejected, Verdict

_BUILD_SECONDS = 120.0  # for several architectures, nobody waits for it but who typed the command
_SECONDS = 20.0  # in which the interpreter begins with another workload
_PATIENCE_SECONDS = 120.0  # then it is ended


@dataclass(frozen=True)
class Tried:
    """What the interpreter got to: workloads by name, and which of them were not as they are."""

    names: tuple[str, ...]
    smaller: int
    in_float32: int
    asked: int

    @classmethod
    def of(cls, operator: Operator, right: Sequence[Workload]) -> Tried:
        """`right` are workloads of the operator, perhaps made smaller or of another dtype."""
        asked = {workload.name: workload for workload in operator.workloads}
        smaller = sum(workload.sizes != asked[workload.name].sizes for workload in right)
        in_float32 = sum(workload.dtype != asked[workload.name].dtype for workload in right)
        return cls(tuple(workload.name for workload in right), smaller, in_float32, len(asked))

    def __str__(self) -> str:
        told = f"right in Triton's interpreter on {len(self.names)} of {self.asked} workloads"
        notes = [
            f"{count} {what}"
            for count, what in (
                (self.smaller, "with smaller sizes"),
                (self.in_float32, "in float32 instead of bfloat16, which the interpreter cannot compute"),
            )
            if count
        ]
        return f"{told} ({'; '.join(notes)})" if notes else told


class UnverifiedJudge:
    """The methods of `kevolve.judge.judge.Judge` for a device that is not here."""

    def __init__(self, device: Device, settings: JudgeConfig):
        self.device = device
        self.settings = settings
        self.tier = find_tier(settings.sandbox, settings.require)

    def key(self, program: Program) -> Key:
        """What a verdict on `program` would be a verdict on."""
        version = self._operator(program).version
        return Key(program.id, self.device.key, self.device.target.toolchain, version, judge_version())

    def prepare(self, program: Program) -> Built | Rejected | Fault:
        """Screen and build. UsageError if the screen is all that can be had, and has nothing against it."""
        if "build" in self.device.stages_anywhere:
            settings = replace(self.settings, build_seconds=_BUILD_SECONDS)
            return prepare(program, self.device.target, self.tier, settings, self.device.name)
        rejected = screen(program, self.device.name)
        if rejected is None:
            raise UsageError(f"the screen has nothing against it for {self.device.name}. {self.device.lacks()}.")
        return rejected

    def survey(self, operator_name: str, seed: int) -> Survey | Fault:
        """Nothing is timed against anything."""
        return Survey(operator_name, self.device.key, {})

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
        """Try the program in the interpreter."""
        start = time.monotonic()
        verdict, tried = self._try(program, Streams(new_secret(), seed))
        seconds = time.monotonic() - start
        environment = {"toolchain": self.device.target.toolchain, "unverified": True, **built.facts}
        if tried:
            environment["interpreted"] = list(tried.names)
        return Judgement(self.key(program), verdict, built.artefact, self.tier.name, seed, seconds, environment)

    def close(self) -> None:
        """Nothing is kept running."""

    def _operator(self, program: Program) -> Operator:
        return load_operator(program.operator, self.device.name)

    def _try(self, program: Program, streams: Streams) -> tuple[Verdict, Tried | None]:
        operator = self._operator(program)
        with tempfile.TemporaryDirectory(prefix="kevolve-interpreter-") as folder:
            calls = Calls(operator, Draws(operator, streams), Path(folder).resolve())
            try:
                for workload in for_the_interpreter(operator):
                    calls.place(workload)
                right = self._interpreted(program, calls)
            except Rejection as error:
                return error.verdict, None
            except OSError as error:
                return Fault("toolchain", f"Triton's interpreter could not run: {error}"), None
            finally:
                calls.close()
        tried = Tried.of(operator, right)
        return Fault("unverified", f"it builds for {self.device.target.architecture}, and is {tried}"), tried

    def _interpreted(self, program: Program, calls: Calls) -> list[Workload]:
        """The workloads that there was time for. Raises Rejection if it is wrong on one or does not get through it."""
        began = time.monotonic()
        finished = Scratch(self.tier, calls.folder, _PATIENCE_SECONDS).run(*_command(program, calls))
        is_time_up = time.monotonic() - began >= _SECONDS and finished is not None and finished[0] == 0
        done = calls.done()
        for number in range(done):
            calls.check(number)
        if done < len(calls.calls) and not (done and is_time_up):
            reason = f"in Triton's interpreter it {_gist(finished)} on {calls.calls[done][0].name}"
            raise Rejection(Rejected("correctness", reason, printable(finished[1], 4000) if finished else ""))
        return [workload for workload, _, _ in calls.calls[:done]]


def _command(program: Program, calls: Calls) -> tuple[Sequence[str], Sequence[str]]:
    """The command that interprets the program, and what it reads beside the folder."""
    packages = triton_packages()
    request = {
        "entry": program.operator,
        "source": program.source,
        "packages": packages,
        "seconds": _SECONDS,
        "calls": calls.described(),
    }
    path = calls.folder / "request.json"
    path.write_text(json.dumps(request))
    folder = str(Path(interpreting.__file__).parent)
    command = [sys.executable, "-I", "-W", "ignore", interpreting.__file__, str(path)]
    return command, [folder, packages, "/dev/urandom"]  # the last is what PyTorch opens


def _gist(finished: tuple[int, str] | None) -> str:
    if finished is None:
        return f"did not finish within {_PATIENCE_SECONDS:.0f} s"
    lines = [line.strip() for line in finished[1].splitlines() if line.strip()]
    return f"fails ({printable(lines[-1])[:200]})" if lines else f"ended with status {finished[0]}"
