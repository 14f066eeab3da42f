"""The life of a disposable child on a GPU: what runs beside a program. Standard library only.

The child makes its own CUDA context, maps the judge's device memory (inputs for reading only), confines itself, loads
the program's cubins, and runs calls when told. The program's launching function has been checked to do nothing but
launch (`kevolve/languages/triton/screen.py`), or was translated so that it cannot do more
(`kevolve/languages/cuda/translate.py`), so this file's word on when the device was done is worth something; the
judge holds its own clock against it all the same.

Messages are JSON: {"op": "load"} with one descriptor, {"op": "prepare", "calls": ...}, then `wake`, and `go`, which
answers with the seconds between two events of the device. `go` comes with the nanoseconds that the device waits before
the first of them, so that it finds the calls queued; how long queueing took is answered, too.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import signal
import socket
import time
from pathlib import Path
from types import ModuleType
from typing import Any

_PACKET = 1 << 20
DRIVER = Path(__file__).resolve().parents[2] / "devices" / "cuda_driver.py"


class Device:
    """This process's context, the judge's memory in it, and the program."""

    def __init__(self, load: ModuleType, workspace_bytes: int, wait: dict[str, Any]):
        self.loading = load
        self.cuda = load.file_module(DRIVER)
        self.workspace_bytes = workspace_bytes
        self.driver = self.cuda.Driver()
        self.driver.start()
        self.bases: dict[str, int] = {}
        self.events = self.driver.event(), self.driver.event()
        self.launcher = load.Launcher(self.driver, 0)
        self.launcher.kernels[None] = load.Loaded(self.driver, self.cuda, base64.b64decode(wait["cubin"]), wait)
        self.program: Any = None
        self.calls: list[Any] = []

    def map(self, name: str, descriptor: int, size: int, *, may_write: bool) -> None:
        """CudaError where reading alone cannot be had: then nothing can be judged here."""
        self.bases[name] = self.driver.map(self.driver.imported(descriptor), size, may_write=may_write)
        os.close(descriptor)

    def wake(self) -> dict[str, Any]:
        """Have the device turn to this process: the last to use it was another."""
        self.launcher.launch(None, (1, 1, 1), [0])
        self.driver.synchronize()
        return {}

    def load(self, descriptor: int, entry: str) -> dict[str, Any]:
        with os.fdopen(descriptor, "rb") as file:
            file.seek(0)
            archive = file.read()
        self.program = self.loading.Program(archive, entry, self.driver, self.cuda, self.workspace_bytes)
        return {"resources": self.program.resources()}

    def prepare(self, calls: list[list[Any]]) -> dict[str, Any]:
        """Each argument is an integer, or [inputs or outputs, offset in bytes, shape, dtype]."""
        self.calls = [self.program.bind([self.placed(argument) for argument in call]) for call in calls]
        return {}

    def placed(self, argument: Any) -> Any:
        if isinstance(argument, int):
            return argument
        memory, offset, shape, dtype = argument
        return [self.bases[memory] + offset, shape, dtype]

    def go(self, nanoseconds: int) -> dict[str, Any]:
        start, end = self.events
        driver = self.driver
        began = time.perf_counter()
        self.launcher.launch(None, (1, 1, 1), [nanoseconds])
        driver.record(start)
        for call in self.calls:
            call()
        driver.record(end)
        queued = time.perf_counter() - began
        driver.synchronize()
        return {"seconds": driver.elapsed_s(start, end), "queued": queued}


def child(
    message: dict[str, Any], descriptors: list[int], line: socket.socket, confinement: ModuleType, load: ModuleType
) -> None:
    """From fork to the end of its channel. Whatever fails before the greeting is the machine's trouble."""
    channel_fd, inputs_fd, outputs_fd, log_fd = descriptors
    os.setsid()
    line.close()
    confinement.prctl(confinement.PR_SET_DUMPABLE, 1)  # the driver names its threads, which is a file in /proc
    for number in (signal.SIGXFSZ, signal.SIGPIPE, signal.SIGINT):  # Python ignores the first two, the server the third
        signal.signal(number, signal.SIG_DFL)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    channel = socket.socket(fileno=channel_fd)
    device = Device(load, message["workspace_bytes"], message["wait"])
    device.map("inputs", inputs_fd, message["inputs_bytes"], may_write=False)
    device.map("outputs", outputs_fd, message["outputs_bytes"], may_write=True)
    device.wake()
    device.go(0)  # what the driver does once, it does before the process is confined
    confinement.limit(**message["limits"], open_files=256)
    if message["landlock"]:
        confinement.landlock(message["read"], message["write"])
    confinement.drop_capabilities()
    confinement.prctl(confinement.PR_SET_DUMPABLE, 1)  # lost with the privileges, like the next
    confinement.prctl(confinement.PR_SET_PDEATHSIG, signal.SIGKILL)
    if message["seccomp"]:
        confinement.seccomp(for_device=True)
    gc.disable()
    channel.send(json.dumps({"hello": os.getpid()}).encode())
    converse(channel, device, load.host.LaunchError)


def converse(channel: socket.socket, device: Device, launch_error: type[Exception]) -> None:
    """Answer the judge until it hangs up. Only `go` is ever timed."""
    while True:
        packet, descriptors, _, _ = socket.recv_fds(channel, _PACKET, 1)
        if not packet:
            return
        try:
            if packet == b"wake":
                answer = device.wake()
            elif packet[:2] == b"go":
                answer = device.go(int(packet[2:]))
            else:
                message = json.loads(packet)
                is_load = message["op"] == "load"
                answer = device.load(descriptors[0], message["entry"]) if is_load else device.prepare(message["calls"])
        except Exception as error:
            speaks_for_itself = isinstance(error, launch_error | device.cuda.CudaError)
            answer = {"error": f"{'' if speaks_for_itself else type(error).__name__ + ': '}{error}"[:2000]}
        channel.send(json.dumps(answer).encode())
