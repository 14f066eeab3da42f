"""The baseline process: trusted, runs an operator's baselines on the judge's inputs, taking turns with the child.

Run as `python -m kevolve.judge.baselines '{json}'` by `BaselineProcess`. It speaks the child's protocol, so that
program and baseline are timed by the same window. Its allocator keeps freed memory, so that a baseline
never pays for page faults.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kevolve.judge.sandbox.child import Child
from kevolve.judge.sandbox.confinement import PR_SET_PDEATHSIG, prctl
from kevolve.judge.sandbox.exits import ChildEnded, ChildLate
from kevolve.operators.custom.given import give, given

if TYPE_CHECKING:
    import torch

    from kevolve.judge.call import Arenas, Call
    from kevolve.operators.operator import Baseline, Inputs, Operator

_PACKET = 1 << 20
_COMPILE_SECONDS = 300.0
_RUN_SECONDS = 60.0
_KEEP_FREED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}


class BaselineFault(Exception):
    """The baseline process failed: nothing can be timed."""


class BaselineProcess:
    """The judge's side. `run` times a baseline; `answers` also writes what it computed into the outputs."""

    def __init__(self, environment: Mapping[str, str], device: str, inputs_fd: int, inputs_size: int):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        definitions = _in_memory(pickle.dumps(given()))
        settings = {"channel": theirs.fileno(), "device": device, "inputs": inputs_fd, "inputs_size": inputs_size}
        settings["definitions"] = definitions
        command = [sys.executable, "-m", "kevolve.judge.baselines", json.dumps(settings)]
        log = os.memfd_create("baseline-output")
        self.process = subprocess.Popen(
            command, env={**os.environ, **environment, **_KEEP_FREED_MEMORY},
            pass_fds=(theirs.fileno(), inputs_fd, definitions), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        theirs.close()
        os.close(definitions)
        self.child = Child(ours, log)
        try:
            self.child.greet()
        except (ChildEnded, ChildLate) as error:
            raise BaselineFault(f"the baseline process did not start: {self.child.close()}") from error

    def run(self, operator: Operator, baseline: str, calls: Sequence[Call], arenas: Arenas) -> tuple[float, list[int]]:
        """Time `calls`: the judge's window in seconds, the process's own times in ns. Raises BaselineFault."""
        message = {
            "op": "prepare",
            "operator": operator.name,
            "baseline": baseline,
            "calls": [call.description() for call in calls],
        }
        self._ask(message)
        try:
            window, times = self.child.go(_RUN_SECONDS)
        except (ChildEnded, ChildLate) as error:
            raise BaselineFault(f"baseline {baseline} failed: {self._last_words()}") from error
        return window, times

    def warm(self, operator: Operator, baseline: str, calls: Sequence[Call]) -> str:
        """Run each call once, compilation included; returns why that failed, or nothing.

        `calls` should differ in size where a workload's calls do: a compiler that specialises on sizes then
        compiles its general form here and not in a timed call.
        """
        message = {
            "op": "warm",
            "operator": operator.name,
            "baseline": baseline,
            "calls": [call.description() for call in calls],
        }
        return str(self._ask(message).get("error", ""))

    def answers(self, call: Call, outputs_fd: int, outputs_size: int) -> str:
        """Write the answer to the first call of the last `warm` into the outputs; returns what is wrong with its form.

        `call` is that call.
        """
        message = {"op": "answers", "outputs_size": outputs_size, "calls": [call.description()]}
        return str(self._ask(message, [outputs_fd]).get("error", ""))

    def _ask(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        try:
            return self.child.ask(message, _COMPILE_SECONDS, descriptors)
        except (ChildEnded, ChildLate) as error:
            raise BaselineFault(f"the baseline process failed: {self._last_words()}") from error

    def waited_seconds(self) -> float:
        """How long its threads have had to wait for a core so far. Raises BaselineFault."""
        try:
            return self.child.waited_seconds()
        except ChildEnded as error:
            raise BaselineFault(f"the baseline process failed: {self._last_words()}") from error

    def _last_words(self) -> str:
        size = os.fstat(self.child.log).st_size
        return os.pread(self.child.log, 2000, max(0, size - 2000)).decode(errors="replace").strip()

    def alive(self) -> bool:
        """Can it run the next baseline?"""
        return self.process.poll() is None

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        self.child.close()


class _Server:
    """The process's own side."""

    def __init__(self, settings: Mapping[str, Any]):
        import torch

        self.torch = torch
        with os.fdopen(settings["definitions"], "rb") as file:
            give(pickle.load(file))
        self.channel = socket.socket(fileno=settings["channel"])
        self.device = settings["device"]
        self.inputs = mmap.mmap(settings["inputs"], settings["inputs_size"], mmap.MAP_PRIVATE)
        self.known: dict[str, Mapping[str, Baseline]] = {}
        self.calls: list[Callable[[], Any]] = []
        self.first_answer: Any = None  # of the calls that were warmed last

    def serve(self) -> None:
        clock = time.perf_counter_ns
        while True:
            packet, descriptors, _, _ = socket.recv_fds(self.channel, _PACKET, 1)
            if packet[:2] == b"go":
                times = []
                for call in self.calls:
                    start = clock()
                    call()
                    times.append(clock() - start)
                self.channel.send(struct.pack(f"{len(times)}q", *times))
                continue
            if not packet:
                return
            try:
                error = self.answer(json.loads(packet), descriptors)
            except Exception as failure:
                error = f"{type(failure).__name__}: {failure}".splitlines()[0][:500]
            self.channel.send(json.dumps({"error": error} if error else {"ok": True}).encode())

    def answer(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> str:
        if message["op"] == "answers":
            answer, self.first_answer = self.first_answer, None
            return self.write(answer, message, descriptors[0])
        baseline = self.baselines(message["operator"])[message["baseline"]]
        self.calls = [self.bind(baseline, self.given(call)) for call in message["calls"]]
        self.first_answer = None
        if message["op"] == "warm":
            self.first_answer = self.calls[0]()
            for call in self.calls[1:]:
                call()
        return ""

    def bind(self, baseline: Baseline, given: Inputs) -> Callable[[], Any]:
        no_grad = self.torch.no_grad

        def call() -> Any:
            with no_grad():
                return baseline(given)

        return call

    def baselines(self, name: str) -> Mapping[str, Baseline]:
        if name not in self.known:
            from kevolve.operators.registry import load_operator

            self.known[name] = load_operator(name).baselines(self.device)
        return self.known[name]

    def given(self, call: Mapping[str, Any]) -> Inputs:
        from kevolve.operators.operator import Inputs

        tensors = {name: self.tensor(self.inputs, *place) for name, place in call["tensors"].items()}
        return Inputs(tensors, call["scalars"])

    def tensor(self, memory: mmap.mmap, offset: int, dtype: str, shape: list[int]) -> torch.Tensor:
        kind = getattr(self.torch, dtype)
        count = 1
        for length in shape:
            count *= length
        if count == 0:
            return self.torch.empty(shape, dtype=kind)
        return self.torch.frombuffer(memory, dtype=kind, count=count, offset=offset).view(shape)

    def write(self, answer: Mapping[str, torch.Tensor], message: Mapping[str, Any], descriptor: int) -> str:
        outputs = mmap.mmap(descriptor, message["outputs_size"])
        for name, (offset, dtype, shape) in message["calls"][0]["outputs"].items():
            got = answer[name]
            if list(got.shape) != shape or str(got.dtype) != f"torch.{dtype}":
                return f"{name} has shape {list(got.shape)} and dtype {got.dtype}, not {shape} and {dtype}"
            if got.numel():
                self.tensor(outputs, offset, dtype, shape).copy_(got)
        return ""


def _in_memory(content: bytes) -> int:
    """An anonymous file with this content, to be read from its start."""
    descriptor = os.memfd_create("kevolve-definitions")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
        file.seek(0)
    return descriptor


def main(settings: Mapping[str, Any]) -> None:
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C on the terminal is the driver's to answer
    channel = socket.socket(fileno=settings["channel"])
    channel.send(json.dumps({"hello": os.getpid()}).encode())
    channel.detach()
    server = _Server(settings)
    gc.disable()  # a collection in a timed call would be the baseline's loss; calls leave no cycles behind
    server.serve()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
