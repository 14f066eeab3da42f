"""The file that runs beside a program: a fork server, and the disposable children that load programs.

Started inside the sandbox as `python -I worker.py '{json settings}'`. The server imports what
programs need (torch) and executes no operation before it forks: after OpenMP or CUDA has run, forks hang. It
holds no reference, no expected output and no verdict; it forks, kills and reports how a child ended. A child confines
itself, maps the judge's memory (inputs read-only), loads the program, and runs calls when told. Standard library only.

Messages are JSON over a packet socket. Server: {"op": "spawn"} with four descriptors (channel, inputs, outputs,
log), {"op": "kill"}. Child: {"op": "load"} with one descriptor, {"op": "map", "used": ...}, and `go`.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import time
from types import ModuleType
from typing import Any

_PACKET = 1 << 20


def _load_file(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Server:
    """Forks one child at a time; kills it with everything it started."""

    def __init__(self, control: socket.socket, confinement: ModuleType, load: ModuleType, own_namespace: bool):
        self.control = control
        self.confinement = confinement
        self.load = load
        self.own_namespace = own_namespace
        self.child = 0

    def serve(self) -> None:
        self.control.send(json.dumps({"ready": True, "pid": os.getpid()}).encode())
        while True:
            packet, descriptors, _, _ = socket.recv_fds(self.control, _PACKET, 8)
            if not packet:
                return
            message = json.loads(packet)
            if message["op"] == "spawn":
                self.spawn(message, descriptors)
            else:
                self.control.send(json.dumps(self.kill()).encode())

    def spawn(self, message: dict[str, Any], descriptors: list[int]) -> None:
        self.child = os.fork()
        if self.child == 0:
            self.control.close()
            code = 70
            try:
                child(message, descriptors, self.confinement, self.load)
                code = 0
            finally:
                os._exit(code)
        for descriptor in descriptors:
            os.close(descriptor)

    def kill(self) -> dict[str, Any]:
        """End the child and all it started; say how the child itself ended."""
        ended, status, usage = os.wait4(self.child, os.WNOHANG)
        if ended != self.child:
            os.kill(self.child, signal.SIGKILL)  # a child that is dying already keeps the status it is dying of
            _, status, usage = os.wait4(self.child, 0)
        orphans = self.kill_orphans()
        return {
            "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "peak_bytes": usage.ru_maxrss * 1024,
            "orphans": orphans,
        }

    def kill_orphans(self) -> int:
        """Every process that the child left, however far it removed itself: the server is their subreaper."""
        seen: set[int] = set()
        while True:
            found = descendants(os.getpid())
            if not found:
                return len(seen)
            seen.update(found)
            if self.own_namespace:
                os.kill(-1, signal.SIGKILL)
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            while True:
                try:
                    if os.waitpid(-1, os.WNOHANG)[0] == 0:
                        break
                except ChildProcessError:
                    break


def descendants(root: int) -> list[int]:
    """Live processes below `root`, from /proc."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat:
                    parent = int(stat.read().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            parents.setdefault(parent, []).append(int(entry))
    found: list[int] = []
    frontier = [root]
    while frontier:
        below = parents.get(frontier.pop(), [])
        found += below
        frontier += below
    return found


def child(message: dict[str, Any], descriptors: list[int], confinement: ModuleType, load: ModuleType) -> None:
    """The life of a disposable child, from fork to the end of its channel."""
    channel_fd, inputs_fd, outputs_fd, log_fd = descriptors
    os.setsid()
    confinement.prctl(confinement.PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGXFSZ, signal.SIGPIPE, signal.SIGINT):  # Python ignores the first two, the server the third
        signal.signal(number, signal.SIG_DFL)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    channel = socket.socket(fileno=channel_fd)
    inputs = Memory(inputs_fd, message["inputs_bytes"], mmap.PROT_READ)
    outputs = Memory(outputs_fd, message["outputs_bytes"], mmap.PROT_READ | mmap.PROT_WRITE)
    limits = message["limits"]
    confinement.limit(limits["memory_bytes"], limits["file_bytes"], limits["cpu_seconds"])
    if message["landlock"]:
        confinement.landlock(message["read"], ["/dev/null"])
    if message["seccomp"]:
        confinement.seccomp()
    gc.disable()
    channel.send(json.dumps({"hello": os.getpid(), "addresses": [inputs.address, outputs.address]}).encode())
    converse(channel, inputs, outputs, load)


class Memory:
    """A mapping of the judge's memory. `address` is where it starts in this process."""

    def __init__(self, descriptor: int, size: int, protection: int):
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
        self.address: int = libc.mmap(None, size, protection, mmap.MAP_SHARED, descriptor, 0) or 0
        if self.address in (0, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), "mmap failed")
        os.close(descriptor)
        self.madvise = libc.madvise
        self.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        self.populated = 0

    def populate(self, size: int, writing: bool) -> None:
        """Map the first `size` bytes now (madvise(2), Linux 5.14), so that no timed call pays for page faults."""
        if size > self.populated:
            self.madvise(self.address, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE, 23 if writing else 22)
            self.populated = size


def converse(channel: socket.socket, inputs: Memory, outputs: Memory, load: ModuleType) -> None:
    """Answer the judge until it hangs up. Only `go` is ever timed: it gives a variant's number and a count of calls."""
    variants: list[list[Any]] = []
    clock = time.perf_counter_ns
    while True:
        packet, descriptors, _, _ = socket.recv_fds(channel, _PACKET, 1)
        if packet[:2] == b"go":
            variant, count = struct.unpack_from("qq", packet, 2)
            times = []
            for call in variants[variant][:count]:
                start = clock()
                call()
                times.append(clock() - start)
            channel.send(struct.pack(f"{count}q", *times))
            continue
        if not packet:
            return
        message = json.loads(packet)
        try:
            if message["op"] == "load":
                # The descriptor stays open: the loader takes a path that it has seen for the file that it has loaded.
                slots = inputs.address
                variants.append(
                    load.load(descriptors[0], message["entry"], message["arguments"], slots, message["calls"])
                )
            else:
                inputs.populate(message["used"][0], writing=False)
                outputs.populate(message["used"][1], writing=True)
        except Exception as error:
            channel.send(json.dumps({"error": f"{type(error).__name__}: {error}"[:2000]}).encode())
        else:
            channel.send(b'{"ok": true}')


def main(settings: dict[str, Any]) -> None:
    control = socket.socket(fileno=settings["control"])
    confinement = _load_file("confinement", settings["confinement"])
    load = _load_file("load", settings["load"])
    confinement.prctl(confinement.PR_SET_PDEATHSIG, signal.SIGKILL)
    confinement.prctl(confinement.PR_SET_CHILD_SUBREAPER, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C on the terminal is the driver's to answer
    for name in settings["imports"]:
        importlib.import_module(name)
    gc.freeze()
    Server(control, confinement, load, settings["own_namespace"]).serve()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
