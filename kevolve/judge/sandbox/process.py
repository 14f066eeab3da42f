"""The judge's side of the sandbox: start the fork server, spawn children, pause, resume and kill them."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevolve.judge.sandbox import confinement, worker
from kevolve.judge.sandbox.tiers import Tier, namespaces, python_folders, system_mounts

_PACKET = 1 << 20
_OUTPUT_BYTES = 1 << 20  # a program may print this much; more ends it with SIGXFSZ


class SandboxFault(Exception):
    """The sandbox itself failed: says nothing about the program."""


@dataclass(frozen=True)
class Exit:
    """How a child ended: an exit status or a signal, SIGKILL when the judge ended it."""

    exit: int | None
    signal: int | None
    peak_bytes: int
    orphans: int
    output: str

    def describe(self, memory_bytes: int = 0) -> str:
        """One sentence for the program's author. `memory_bytes` is what it was allowed."""
        if self.signal == signal.SIGSYS:
            return (
                "made a system call that a program may not make"
                " (starting a process, opening a socket, signalling or inspecting another process)"
            )
        if self.signal == signal.SIGXFSZ:
            return f"printed or wrote more than {_OUTPUT_BYTES >> 20} MiB"
        if self.signal == signal.SIGXCPU:
            return "used up its processor time"
        if memory_bytes and self.peak_bytes > memory_bytes // 2:
            return f"ran out of memory: it held {self.peak_bytes >> 20} MiB, {memory_bytes >> 20} MiB are allowed"
        if self.signal is not None:
            return f"was ended by {signal.Signals(self.signal).name} ({signal.strsignal(self.signal)})"
        return f"ended before it answered (exit status {self.exit})"


class ChildEnded(Exception):
    """The child is gone. The caller asks the server how it ended."""


class ChildLate(Exception):
    """The child did not answer in time."""


class ForkServer:
    """A sandboxed process that forks disposable children. Everything in it ends with this object, or with its owner.

    Raises SandboxFault when the server does not start or does not answer.
    """

    def __init__(
        self, tier: Tier, load_path: Path, environment: Mapping[str, str], imports: Sequence[str] = ("torch",)
    ):
        self.tier = tier
        self.read = [*python_folders(), "/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/sys/devices/system/cpu"]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        settings = {
            "control": theirs.fileno(),
            "confinement": confinement.__file__,
            "load": str(load_path.resolve()),
            "own_namespace": tier.name == "bwrap",
            "imports": list(imports),
        }
        command = [sys.executable, "-I", worker.__file__, json.dumps(settings)]
        variables = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", **environment}
        if tier.name == "bwrap":
            files = [confinement.__file__, worker.__file__, str(load_path.resolve())]
            command = [
                tier.bwrap,
                *namespaces(),
                *system_mounts([*python_folders(), *files]),
                *_setenv(variables),
                "--",
                *command,
            ]
        self.process = subprocess.Popen(
            command,
            env=variables,
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        theirs.close()
        self.control = ours
        self.child: Child | None = None
        self._expect(60.0)

    def _expect(self, seconds: float) -> dict[str, Any]:
        if select.select([self.control], [], [], seconds)[0]:
            packet = self.control.recv(_PACKET)
            if packet:
                answer: dict[str, Any] = json.loads(packet)
                return answer
        self.close()
        raise SandboxFault(f"the sandbox ({self.tier.name}) did not answer: {self._last_words()}")

    def _last_words(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode(errors="replace").strip()[-2000:] or "it said nothing"

    def spawn(self, inputs: int, outputs: int, sizes: tuple[int, int], memory_bytes: int, cpu_seconds: int) -> Child:
        """A fresh child that sees the memory behind the descriptors `inputs` (read-only) and `outputs`."""
        if self.child is not None:
            self.kill()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        log = os.memfd_create("program-output")
        message = {
            "op": "spawn",
            "inputs_bytes": sizes[0],
            "outputs_bytes": sizes[1],
            "landlock": self.tier.landlock,
            "seccomp": self.tier.seccomp,
            "read": self.read,
            "limits": {"memory_bytes": memory_bytes, "file_bytes": _OUTPUT_BYTES, "cpu_seconds": cpu_seconds},
        }
        try:
            socket.send_fds(self.control, [json.dumps(message).encode()], [theirs.fileno(), inputs, outputs, log])
        except OSError as error:
            raise SandboxFault(f"the sandbox ({self.tier.name}) is gone: {error}") from error
        theirs.close()
        self.child = Child(ours, log)
        try:
            self.child.greet()
        except (ChildEnded, ChildLate) as error:
            ended = self.kill()
            raise SandboxFault(f"a sandboxed child did not start: {ended.describe()} {ended.output}") from error
        return self.child

    def kill(self) -> Exit:
        """End the child with everything it started, and say how it ended."""
        child, self.child = self.child, None
        if child is None:
            raise SandboxFault("there is no child to end")
        try:
            self.control.send(b'{"op": "kill"}')
        except OSError as error:
            raise SandboxFault(f"the sandbox ({self.tier.name}) is gone: {error}") from error
        answer = self._expect(30.0)
        return Exit(**answer, output=child.close())

    def alive(self) -> bool:
        """Is the server there to fork the next child?"""
        return self.process.poll() is None

    def close(self) -> None:
        """End the server and, in the bwrap tier, its whole PID namespace."""
        self.control.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Child:
    """One disposable child. It runs only between `resume` and `pause`."""

    def __init__(self, channel: socket.socket, log: int):
        self.channel = channel
        self.log = log
        self.pid = 0
        self.handle = -1
        self.paused = False

    def greet(self) -> None:
        """Wait for the child's first message and learn its process id, translated by the kernel into ours."""
        if not select.select([self.channel], [], [], 30.0)[0]:
            raise ChildLate
        packet, ancillary, _, _ = self.channel.recvmsg(_PACKET, socket.CMSG_SPACE(struct.calcsize("3i")))
        if not packet:
            raise ChildEnded
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                self.pid = struct.unpack("3i", data)[0]
        self.channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
        self.handle = os.pidfd_open(self.pid)

    def pause(self) -> None:
        """Stop every thread of the child: nothing it does can reach past a timed window."""
        if not self.paused:
            self._signal(signal.SIGSTOP)
            while not self._is_still():  # a thread on another core runs on for a moment
                continue
            self.paused = True

    def _is_still(self) -> bool:
        """Is every thread stopped, or gone?"""
        try:
            states = [
                Path(task.path, "stat").read_text().rsplit(")", 1)[1].split()[0]
                for task in os.scandir(f"/proc/{self.pid}/task")
            ]
        except OSError:
            return not os.path.exists(f"/proc/{self.pid}/task")
        return all(state in "TtZX" for state in states)

    def resume(self) -> None:
        """Let the child run again."""
        if self.paused:
            self._signal(signal.SIGCONT)
            self.paused = False

    def _signal(self, number: signal.Signals) -> None:
        try:
            signal.pidfd_send_signal(self.handle, number)
        except ProcessLookupError as error:
            raise ChildEnded from error

    def ask(self, message: Mapping[str, Any], seconds: float, descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """Send a message, wait for the answer, pause. Raises ChildEnded or ChildLate."""
        packet = self._exchange(json.dumps(message).encode(), seconds, descriptors)
        self.pause()
        try:
            answer: dict[str, Any] = json.loads(packet)
        except ValueError as error:
            raise ChildEnded from error
        return answer

    def go(self, seconds: float) -> tuple[float, list[int]]:
        """Run the prepared calls. Returns the judge's window in seconds and the child's own times in ns."""
        start = time.perf_counter()
        self.resume()
        packet = self._exchange(b"go", seconds)
        window = time.perf_counter() - start
        self.pause()
        if len(packet) % 8:
            raise ChildEnded
        return window, list(struct.unpack(f"{len(packet) // 8}q", packet))

    def _exchange(self, packet: bytes, seconds: float, descriptors: Sequence[int] = ()) -> bytes:
        self.resume()
        try:
            socket.send_fds(self.channel, [packet], descriptors)
            # The handle is watched too: a grandchild may hold the channel open after the child's end.
            ready, _, _ = select.select([self.channel.fileno(), self.handle], [], [], max(seconds, 0.0))
            if not ready:
                raise ChildLate
            answer = self.channel.recv(_PACKET, socket.MSG_DONTWAIT)
        except (BrokenPipeError, ConnectionResetError, BlockingIOError) as error:
            raise ChildEnded from error
        if not answer:
            raise ChildEnded
        return answer

    def cpu_seconds(self) -> float:
        """Processor time used so far, all threads."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError as error:
            raise ChildEnded from error
        user, system = stat.rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def close(self) -> str:
        """Give back the descriptors; returns the end of what the program printed."""
        self.channel.close()
        if self.handle >= 0:
            os.close(self.handle)
        size = os.fstat(self.log).st_size
        text = os.pread(self.log, 2000, max(0, size - 2000)).decode(errors="replace")
        os.close(self.log)
        return text.strip()


def _setenv(variables: Mapping[str, str]) -> list[str]:
    return [word for name, value in variables.items() for word in ("--setenv", name, value)]


@dataclass(frozen=True)
class Finished:
    """A confined command's end."""

    status: int
    output: str
    timed_out: bool


def run_confined(
    tier: Tier, command: Sequence[str], scratch: Path, *, read: Sequence[str], seconds: float, memory_bytes: int
) -> Finished:
    """Run a compiler on hostile input: reads the system and `read`, writes `scratch` only, no network, one deadline."""
    settings = {
        "memory_bytes": memory_bytes,
        "file_bytes": 256 << 20,
        "cpu_seconds": int(seconds) + 1,
        "landlock": tier.landlock,
        "seccomp": tier.seccomp,
        "read": [
            "/usr",
            "/bin",
            "/lib",
            "/lib64",
            "/etc/ld.so.cache",
            "/etc/alternatives",
            "/proc",
            *read,
            *python_folders(),
        ],
        "write": [str(scratch), "/dev/null"],
    }
    variables = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TMPDIR": str(scratch),
        "HOME": str(scratch),
    }
    whole = [sys.executable, "-I", confinement.__file__, json.dumps(settings), "--", *command]
    if tier.name == "bwrap":
        mounts = system_mounts([*python_folders(), confinement.__file__, *read])
        whole = [
            tier.bwrap,
            *namespaces(),
            *mounts,
            "--bind",
            str(scratch),
            str(scratch),
            *_setenv(variables),
            "--",
            *whole,
        ]
    process = subprocess.Popen(
        whole,
        env=variables,
        cwd=scratch,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        return Finished(process.returncode, output[-20000:].decode(errors="replace"), False)
    except subprocess.TimeoutExpired:
        _kill_session(process)
        return Finished(-1, "", True)


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    for pid in [process.pid, *worker.descendants(process.pid)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()
