"""The baseline process on a GPU: trusted, runs an operator's baselines on the judge's inputs, in turns with the child.

Run as `python -m kevolve.judge.cuda.baselines '{json}'` by `BaselineProcess`. It speaks the child's protocol, so that
program and baseline are timed by the same window.
"""

from __future__ import annotations

import base64
import gc
import json
import math
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kevolve.judge.baselines import BaselineFault
from kevolve.judge.cuda.peer import Peer, Queueing
from kevolve.judge.sandbox.confinement import PR_SET_PDEATHSIG, prctl
from kevolve.judge.sandbox.exits import ChildEnded, ChildLate
from kevolve.operators.custom.given import give, given

if TYPE_CHECKING:
    import torch

    from kevolve.judge.cuda.content import Call
    from kevolve.judge.cuda.memory import Shared
    from kevolve.operators.operator import Baseline, Inputs, Operator

_PACKET = 1 << 20
_COMPILE_SECONDS = 300.0
_RUN_SECONDS = 120.0
_QUEUE_SECONDS = 2e-4  # for a call, until it is known: several operations of PyTorch, or a compiled one
_MOST_WAIT_SECONDS = 0.01


class BaselineProcess:
    """The judge's side. Every method raises BaselineFault when the process fails."""

    def __init__(self, environment: Mapping[str, str], device: str, architecture: str, inputs: Shared, outputs: Shared):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        definitions = os.memfd_create("kevolve-definitions")
        with os.fdopen(os.dup(definitions), "wb") as file:
            file.write(pickle.dumps(given()))
            file.seek(0)
        shared = {"inputs": inputs, "outputs": outputs}
        settings = {
            "channel": theirs.fileno(),
            "device": device,
            "architecture": architecture,
            "definitions": definitions,
            "memories": {name: [memory.descriptor, memory.size] for name, memory in shared.items()},
        }
        command = [sys.executable, "-m", "kevolve.judge.cuda.baselines", json.dumps(settings)]
        log = os.memfd_create("baseline-output")
        passed = (theirs.fileno(), definitions, *(memory.descriptor for memory in shared.values()))
        self.process = subprocess.Popen(
            command, env={**os.environ, **environment}, pass_fds=passed, stdin=subprocess.DEVNULL, stdout=log,
            stderr=log, start_new_session=True,
        )  # fmt: skip
        theirs.close()
        os.close(definitions)
        self.peer = Peer(ours, log)
        self.queueings: defaultdict[tuple[str, str], Queueing] = defaultdict(
            lambda: Queueing(_QUEUE_SECONDS, _MOST_WAIT_SECONDS)
        )
        self.prepared: tuple[Queueing, int]
        try:
            self.peer.greet()
        except (ChildEnded, ChildLate) as error:
            raise BaselineFault(f"the baseline process did not start: {self.peer.close()}") from error

    def prepare(self, operator: Operator, baseline: str, calls: Sequence[Call]) -> None:
        """Bind calls for `run`."""
        self._ask(self._message("prepare", operator, baseline, calls))
        self.prepared = self.queueings[operator.name, baseline], len(calls)

    def run(self) -> tuple[float, float]:
        """Run the prepared calls: the judge's window and the device's own time, both in seconds.

        The device waits for all calls to be queued; the window is without that.
        """
        queueing, calls = self.prepared
        try:
            window, answer = self.peer.go(_RUN_SECONDS, queueing.wait_s(calls))
        except (ChildEnded, ChildLate) as error:
            raise BaselineFault(f"a baseline failed: {self.peer.last_words()}") from error
        if "error" in answer:
            raise BaselineFault(f"a baseline failed: {answer['error']}")
        queueing.took(answer["queued"], calls)
        return window, answer["seconds"]

    def warm(self, operator: Operator, baseline: str, calls: Sequence[Call]) -> str:
        """Run each call once, compilation included; returns why that failed, or nothing.

        `calls` should differ in size where a workload's calls do: a compiler that specialises on sizes then
        compiles its general form here and not in a timed call.
        """
        return str(self._ask(self._message("warm", operator, baseline, calls)).get("error", ""))

    def answers(self, call: Call) -> str:
        """Write the answer to the first call of the last `warm` into the outputs; returns what is wrong with its form.

        `call` is that call.
        """
        return str(self._ask({"op": "answers", "calls": [call.description()]}).get("error", ""))

    def _message(self, op: str, operator: Operator, baseline: str, calls: Sequence[Call]) -> dict[str, Any]:
        described = [call.description() for call in calls]
        return {"op": op, "operator": operator.name, "baseline": baseline, "calls": described}

    def _ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self.peer.ask(message, _COMPILE_SECONDS)
        except (ChildEnded, ChildLate) as error:
            raise BaselineFault(f"the baseline process failed: {self.peer.last_words()}") from error

    def alive(self) -> bool:
        """Can it run the next baseline?"""
        return self.process.poll() is None

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        self.peer.close()


class _Server:
    """The process's own side."""

    def __init__(self, settings: Mapping[str, Any]):
        import torch

        from kevolve.devices import cuda_driver
        from kevolve.judge.cuda.memory import Mapped
        from kevolve.judge.cuda.waiting import compiled_wait
        from kevolve.languages.triton import load

        self.torch = torch
        with os.fdopen(settings["definitions"], "rb") as file:
            give(pickle.load(file))
        self.device = settings["device"]
        torch.zeros(1, device="cuda")  # PyTorch's context, which the driver's own calls then find current
        driver = cuda_driver.Driver()
        driver.start()
        self.memories = {name: Mapped(driver, *place).bytes for name, place in settings["memories"].items()}
        self.scratch = torch.zeros(1, device="cuda")
        event: Any = torch.cuda.Event
        self.events = [event(enable_timing=True) for _ in range(2)]
        self.launcher = load.Launcher(driver, 0)
        wait = compiled_wait(settings["architecture"])
        self.launcher.kernels[None] = load.Loaded(driver, cuda_driver, base64.b64decode(wait["cubin"]), wait)
        self.known: dict[str, Mapping[str, Baseline]] = {}
        self.calls: list[Callable[[], Any]] = []
        self.first_answer: Any = None  # of the calls that were warmed last

    def serve(self, channel: socket.socket) -> None:
        while packet := channel.recv(_PACKET):
            try:
                if packet == b"wake":
                    answer = self.wake()
                else:
                    is_go = packet[:2] == b"go"
                    answer = self.go(int(packet[2:])) if is_go else self.answer(json.loads(packet))
            except Exception as failure:
                told = f"{type(failure).__name__}: {failure}".splitlines()[0][:500]
                answer = {"error": told}
            channel.send(json.dumps(answer).encode())

    def wake(self) -> dict[str, Any]:
        self.scratch.add_(1)
        self.torch.cuda.synchronize()
        return {}

    def go(self, nanoseconds: int) -> dict[str, Any]:
        start, end = self.events
        began = time.perf_counter()
        self.launcher.launch(None, (1, 1, 1), [nanoseconds])  # in PyTorch's stream, the default one
        start.record()
        for call in self.calls:
            call()
        end.record()
        queued = time.perf_counter() - began
        end.synchronize()
        return {"seconds": start.elapsed_time(end) * 1e-3, "queued": queued}

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if message["op"] == "answers":
            answer, self.first_answer = self.first_answer, None
            return self.write(answer, message["calls"][0]["outputs"])
        self.first_answer, self.calls = None, []
        baseline = self.baselines(message["operator"])[message["baseline"]]
        self.calls = [self.bind(baseline, self.given(call)) for call in message["calls"]]
        if message["op"] == "warm":
            self.first_answer = self.calls[0]()
            for call in self.calls[1:]:
                call()
        self.torch.cuda.synchronize()
        return {}

    def bind(self, baseline: Baseline, given: Inputs) -> Callable[[], Any]:
        no_grad = self.torch.no_grad

        def call() -> Any:
            with no_grad():
                return baseline(given)

        return call

    def baselines(self, name: str) -> Mapping[str, Baseline]:
        if name not in self.known:
            from kevolve.operators.registry import load_operator

            self.known[name] = load_operator(name, self.device).baselines(self.device)
        return self.known[name]

    def given(self, call: Mapping[str, Any]) -> Inputs:
        from kevolve.operators.operator import Inputs

        tensors = {name: self.tensor("inputs", *place) for name, place in call["tensors"].items()}
        return Inputs(tensors, call["scalars"])

    def tensor(self, memory: str, offset: int, shape: list[int], dtype: str) -> torch.Tensor:
        kind = getattr(self.torch, dtype)
        end = offset + math.prod(shape) * kind.itemsize
        found: torch.Tensor = self.memories[memory][offset:end].view(kind).view(shape)
        return found

    def write(self, answer: Mapping[str, torch.Tensor], outputs: Mapping[str, Any]) -> dict[str, Any]:
        for name, (offset, shape, dtype) in outputs.items():
            got = answer[name]
            if list(got.shape) != shape or str(got.dtype) != f"torch.{dtype}":
                return {"error": f"{name} has shape {list(got.shape)} and dtype {got.dtype}, not {shape} and {dtype}"}
            self.tensor("outputs", offset, shape, dtype).copy_(got)
        self.torch.cuda.synchronize()
        return {}


def main(settings: Mapping[str, Any]) -> None:
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C on the terminal is the driver's to answer
    channel = socket.socket(fileno=settings["channel"])
    server = _Server(settings)
    channel.send(json.dumps({"hello": os.getpid()}).encode())
    gc.disable()  # a collection in a timed call would be the baseline's loss; calls leave no cycles behind
    server.serve(channel)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
