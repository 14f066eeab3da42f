"""The file that runs beside a program: a fork server, and the disposable children that load programs.

Started inside the sandbox as `python -I worker.py '{json settings}'`. The server imports what
programs need (torch) and executes no operation before it forks: after OpenMP or CUDA has run, forks hang. It
holds no reference, no expected output and no verdict; it forks, kills and reports how a child ended. A child confines
itself, maps the judge's memory (inputs read-only), loads the program, and runs calls when told. Standard library only.

Messages are JSON over a packet socket. Server: {"op": "spawn"} with four descriptors (channel, inputs, outputs,
log), {"op": "kill"}. Child: {"op": "load"} with one descriptor, {"op": "map", "used": ...}, and `go`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import mmap
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

_PACKET = 1 << 20
_THREADS = 1024  # of one child
_OTHER_THREADS = 4096  # that the same user may start beside it


def _load_file(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Server:
    """Forks one child at a time; ends it with everything it started."""

    def __init__(self, control: socket.socket, settings: dict[str, Any]):
        self.control = control
        self.confinement = _load_file("confinement", settings["confinement"])
        self.opens = _load_file("opens", settings["opens"])
        self.load = _load_file("load", settings["load"])
        self.live = _load_file("life", settings["life"]).child if settings["life"] else child
        self.own_namespace = settings["own_namespace"]  # does the server see nobody's processes but its own?
        self.kernel_settings = settings["kernel_settings"]  # /proc/sys/kernel, open
        self.threads = _THREADS
        if not self.own_namespace:  # there the kernel counts all threads of the user, so those of others must fit in
            self.threads += _OTHER_THREADS + threads_of(os.getuid() or self.confinement.NOBODY)
        self.secluded = settings["namespaces"]  # has each child namespaces of its own?
        self.child = 0  # then: the process that made them
        self.line: socket.socket  # and this leads to the first process in them
        self.listening: list[int] = []  # to the files that the child wants to open, where the server does that for it,
        self.read: list[str] = []  # below these

    def serve(self) -> None:
        self.make_namespaces()
        self.control.send(json.dumps({"ready": True, "pid": os.getpid()}).encode())
        while True:
            ready, _, _ = select.select([self.control.fileno(), *self.listening], [], [])
            if self.control.fileno() not in ready:
                if not self.opens.answer(*self.listening, self.read):
                    self.stop_listening()
                continue
            packet, descriptors, _, _ = socket.recv_fds(self.control, _PACKET, 8)
            if not packet:
                return
            message = json.loads(packet)
            if message["op"] == "spawn":
                message["limits"]["threads"] = self.threads
                self.spawn(message, descriptors)
                for descriptor in descriptors:
                    os.close(descriptor)
            else:
                self.control.send(json.dumps(self.kill()).encode())
                self.make_namespaces()

    def spawn(self, message: dict[str, Any], descriptors: list[int]) -> None:
        if self.secluded:
            with contextlib.suppress(OSError):  # nobody there: the judge hears of it when it asks
                socket.send_fds(self.line, [json.dumps(message).encode()], descriptors)
            return
        self.line, line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def run() -> None:
            for inherited in (self.control, self.line):
                inherited.close()
            self.become_child(message, descriptors, line)

        self.child = fork(run, descriptors[-1])
        line.close()
        if message["supervised"]:
            _, self.listening, _, _ = socket.recv_fds(self.line, 1, 1)
            self.read = message["read"]

    def become_child(self, message: dict[str, Any], descriptors: list[int], line: socket.socket) -> None:
        os.close(self.kernel_settings)
        self.live(message, descriptors, line, self.confinement, self.load)

    def make_namespaces(self) -> None:
        """Those of the next child, while nobody waits for them: that takes three times as long as to fork."""
        if self.secluded:
            if self.child:
                os.waitpid(self.child, 0)
            self.line, line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.child = fork(lambda: self.seclude(line), sys.stderr.fileno())
            line.close()

    def seclude(self, line: socket.socket) -> None:
        """Make the namespaces and stay until they end; who makes a PID namespace is not in it."""
        self.line.close()  # the server's end
        self.control.close()
        self.confinement.prctl(self.confinement.PR_SET_PDEATHSIG, signal.SIGKILL)
        self.confinement.own_namespaces()
        first = fork(lambda: self.keep(line), sys.stderr.fileno())
        line.close()
        os.waitpid(first, 0)

    def keep(self, line: socket.socket) -> None:
        """The first process of the namespaces: with its end, however it comes, the kernel ends all others there."""
        self.confinement.prctl(self.confinement.PR_SET_PDEATHSIG, signal.SIGKILL)
        with contextlib.suppress(OSError):  # the resource limit is there, too
            self.confinement.bound_processes(self.kernel_settings, _THREADS)
        packet, descriptors, _, _ = socket.recv_fds(line, _PACKET, 8)
        if packet:
            pid = fork(lambda: self.become_child(json.loads(packet), descriptors, line), descriptors[-1])
            for descriptor in descriptors:
                os.close(descriptor)
            line.recv(1)  # when the child is to end, or the server has
            ended = end(pid)
            line.send(json.dumps({**ended, "orphans": end_others()}).encode())

    def kill(self) -> dict[str, Any]:
        """End the child and all it started; say how the child itself ended."""
        report = b""
        if self.secluded:
            with contextlib.suppress(OSError):  # the first process of the namespaces has ended
                self.line.send(b"x")
                report = self.line.recv(_PACKET)
        self.line.close()
        self.stop_listening()
        if report:
            ended: dict[str, Any] = json.loads(report)
        else:
            ended = {**end(self.child), "orphans": self.kill_orphans()}
            self.child = 0
        return ended

    def stop_listening(self) -> None:
        while self.listening:
            os.close(self.listening.pop())

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


def fork(run: Callable[[], None], log: int) -> int:
    """A process that does `run` and nothing else. What goes wrong in it can be read in `log`."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            run()
            code = 0
        except BaseException as error:
            os.write(log, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(code)
    return pid


def end(pid: int) -> dict[str, Any]:
    """End a child of this process, and say how it ended: one that is dying already keeps the status it is dying of."""
    ended, status, usage = os.wait4(pid, os.WNOHANG)
    if ended != pid:
        os.kill(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
    return {
        "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        "peak_bytes": usage.ru_maxrss * 1024,
    }


def end_others() -> int:
    """For the first process of a PID namespace: end all the others there, and say how many they were."""
    assert os.getpid() == 1
    count = 0
    while True:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return count
        count += 1


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


def threads_of(user: int) -> int:
    """Threads that a user has on this machine, as far as /proc shows them."""
    count = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{entry}").st_uid == user:
                    count += len(os.listdir(f"/proc/{entry}/task"))
    return count


def child(
    message: dict[str, Any], descriptors: list[int], line: socket.socket, confinement: ModuleType, load: ModuleType
) -> None:
    """The life of a disposable child, from fork to the end of its channel."""
    channel_fd, inputs_fd, outputs_fd, log_fd = descriptors
    os.setsid()
    for number in (signal.SIGXFSZ, signal.SIGPIPE, signal.SIGINT):  # Python ignores the first two, the server the third
        signal.signal(number, signal.SIG_DFL)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")  # where memory runs out, it is the program that goes
    channel = socket.socket(fileno=channel_fd)
    inputs = Memory(inputs_fd, message["inputs_bytes"], mmap.PROT_READ)
    outputs = Memory(outputs_fd, message["outputs_bytes"], mmap.PROT_READ | mmap.PROT_WRITE)
    confinement.limit(**message["limits"])
    if message["landlock"]:
        confinement.landlock(message["read"], ["/dev/null"])
    confinement.drop_capabilities(as_nobody=True)
    # Both are lost with the privileges. The judge reads in /proc what its child does; nobody else has the right to.
    confinement.prctl(confinement.PR_SET_DUMPABLE, 1)
    confinement.prctl(confinement.PR_SET_PDEATHSIG, signal.SIGKILL)
    if message["supervised"]:
        listener = confinement.supervise_opens()
        socket.send_fds(line, [b"x"], [listener])
        os.close(listener)
    line.close()
    if message["seccomp"]:
        confinement.seccomp()
    gc.disable()
    channel.send(json.dumps({"hello": os.getpid(), "addresses": [inputs.address, outputs.address]}).encode())
    converse(channel, inputs, outputs, load)


class Memory:
    """A mapping of the judge's memory. `address` is where it starts in this process.

    It is a page longer than the memory: touching that page is a SIGBUS.
    """

    def __init__(self, descriptor: int, size: int, protection: int):
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
        self.address: int = libc.mmap(None, size + mmap.PAGESIZE, protection, mmap.MAP_SHARED, descriptor, 0) or 0
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
    server = Server(control, settings)
    confinement = server.confinement
    confinement.prctl(confinement.PR_SET_PDEATHSIG, signal.SIGKILL)
    confinement.prctl(confinement.PR_SET_CHILD_SUBREAPER, 1)
    confinement.prctl(confinement.PR_SET_DUMPABLE, 0)  # no child can look into the server, where files are not confined
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C on the terminal is the driver's to answer
    for name in settings["imports"]:
        importlib.import_module(name)
    gc.freeze()
    server.serve()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
