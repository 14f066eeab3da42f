"""One child of the fork server, as the judge sees it: asked, paused, resumed, watched."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kevolve.judge.sandbox.exits import ChildEnded, ChildLate, ChildRan, printable

PACKET = 1 << 20
_CLOCK_OF_PROCESS = 2  # CPUCLOCK_SCHED of posix-timers.h: with ~pid above it, the clock of another process
_STOP_STEP_SECONDS = 10e-6
_SETTLE_STEP_SECONDS = 100e-6
_STOP_SECONDS = 10.0  # for a child's threads to stop once they were told to
_SETTLE_SECONDS = 2.0  # for those that look stopped to have left their cores, in all of a child's pauses together


class Child:
    """One disposable child. It runs only between `resume` and `pause`."""

    def __init__(self, channel: socket.socket, log: int):
        self.channel = channel
        self.log = log
        self.pid = 0
        self.handle = -1
        self.paused = False
        self.ran: int | None = None  # ns, all threads, as it was found since it was paused
        self.settle_seconds = _SETTLE_SECONDS  # left
        self.busy_seconds = 0.0  # of all threads, in all windows
        self.addresses = (0, 0)  # where the memory of inputs and of outputs begins in the child

    def greet(self) -> None:
        """Wait for the child's first message and learn its process id, translated by the kernel into ours.

        No program is loaded yet: the message can be believed.
        """
        if not select.select([self.channel], [], [], 30.0)[0]:
            raise ChildLate
        packet, ancillary, _, _ = self.channel.recvmsg(PACKET, socket.CMSG_SPACE(struct.calcsize("3i")))
        if not packet:
            raise ChildEnded
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                self.pid = struct.unpack("3i", data)[0]
        first, second = json.loads(packet).get("addresses", (0, 0))
        self.addresses = (first, second)
        self.channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
        self.handle = os.pidfd_open(self.pid)

    def pause(self) -> None:
        """Stop every thread of the child: nothing it does can reach past a timed window."""
        if not self.paused:
            self._signal(signal.SIGSTOP)
            deadline = time.monotonic() + _STOP_SECONDS
            while True:
                time.sleep(_STOP_STEP_SECONDS)  # a thread must run to stop, perhaps on this core
                if self._is_still():
                    break
                if time.monotonic() > deadline:
                    raise ChildLate
            self.paused = True

    def _is_still(self) -> bool:
        """Is every thread stopped, or gone?"""
        try:
            stats = self._of_threads("stat")
        except OSError:
            return not os.path.exists(f"/proc/{self.pid}/task")
        return all(stat[stat.rindex(b")") + 2 : stat.rindex(b")") + 3] in b"TtZX" for stat in stats)

    def check_still(self) -> int:
        """The time that all its threads have run, in ns. Raises ChildRan if it ran since this was asked in a pause."""
        if self.paused and self.ran is None:
            self._settle()
        ran = self._thread_times()[0]
        if self.paused and self.ran not in (None, ran):
            raise ChildRan
        self.ran = ran
        return ran

    def _settle(self) -> None:
        """Wait until its threads are off their cores: one that other work displaced on its way to stop looks stopped
        already, and runs on for a moment when its turn comes. The kernel has no place to tell for such a thread.
        """
        while self.settle_seconds > 0:
            try:
                if all(place not in (b"0", b"") for place in self._of_threads("wchan")):
                    return
            except OSError:
                return  # a thread has ended, or nobody may look
            time.sleep(_SETTLE_STEP_SECONDS)
            self.settle_seconds -= _SETTLE_STEP_SECONDS

    def resume(self) -> None:
        """Let the child run again."""
        if self.paused:
            self._signal(signal.SIGCONT)
            self.paused, self.ran = False, None

    def _signal(self, number: signal.Signals) -> None:
        try:
            signal.pidfd_send_signal(self.handle, number)
        except ProcessLookupError as error:
            raise ChildEnded from error

    def ask(self, message: Mapping[str, Any], seconds: float, descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """Send a message, wait for the answer, pause. Raises ChildEnded or ChildLate."""
        self._send(json.dumps(message).encode(), descriptors)
        packet = self._answer(seconds)
        self.pause()
        try:
            answer = json.loads(packet)
        except (ValueError, RecursionError) as error:
            raise ChildEnded from error
        if not isinstance(answer, dict):
            raise ChildEnded
        return {str(name): printable(str(value)) if name == "error" else value for name, value in answer.items()}

    def go(self, seconds: float, variant: int = 0, count: int = 0) -> tuple[float, list[int]]:
        """Run the first `count` calls of a variant. Returns the judge's window in seconds, the child's own times in ns.

        The window is open while any thread of the child can run: from before the child is resumed to its answer, and
        as long again as all its threads together ran from then on, until all of it has been seen stopped. To stop it
        takes longer than many a program, and is no program's work. Nothing is ever subtracted from the window.
        """
        before = self.check_still()
        start = time.perf_counter()
        self._send(_go(variant, count))
        packet = self._answer(seconds)
        ran = self._ran()
        answered = time.perf_counter()
        self.pause()
        stopped = time.perf_counter()
        window = min(stopped, answered + (self._ran() - ran) * 1e-9) - start
        self.busy_seconds += max(self.check_still() - before, 0) * 1e-9
        return window, _times(packet)

    def _ran(self) -> int:
        """The time that all its threads have run, those that have ended too, in ns: the kernel's account, up to now."""
        try:
            return time.clock_gettime_ns((~self.pid << 3) | _CLOCK_OF_PROCESS)
        except OSError as error:
            raise ChildEnded from error

    def go_until(self, seconds: float, variant: int, count: int) -> None:
        """Like `go`, but stopped after `seconds`, wherever the child is by then. `finish` must follow."""
        self._send(_go(variant, count))
        time.sleep(seconds)
        self.pause()

    def finish(self, seconds: float) -> list[int]:
        """Let the child end what `go_until` interrupted; its own times in ns."""
        self.resume()
        packet = self._answer(seconds)
        self.pause()
        return _times(packet)

    def _send(self, packet: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send, and only then resume: one wake-up instead of two."""
        try:
            socket.send_fds(self.channel, [packet], descriptors)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChildEnded from error
        self.resume()

    def _answer(self, seconds: float) -> bytes:
        try:
            # The handle is watched too: a grandchild may hold the channel open after the child's end.
            ready, _, _ = select.select([self.channel.fileno(), self.handle], [], [], max(seconds, 0.0))
            if not ready:
                raise ChildLate
            answer = self.channel.recv(PACKET, socket.MSG_DONTWAIT)
        except (BrokenPipeError, ConnectionResetError, BlockingIOError) as error:
            raise ChildEnded from error
        if not answer:
            raise ChildEnded
        return answer

    def maps(self, name: str) -> bool:
        """Is the memory file called `name` mapped to be executed? Read from the kernel, not told by the child."""
        try:
            lines = Path(f"/proc/{self.pid}/maps").read_text().splitlines()
        except OSError as error:
            raise ChildEnded from error
        return any("x" in line.split()[1] and f"/memfd:{name} " in line for line in lines)

    def waited_seconds(self) -> float:
        """How long its threads have had to wait for a core so far, all together."""
        return self._thread_times()[1] * 1e-9

    def first_waited_seconds(self) -> float:
        """The same for its first thread, which is the one that makes the calls."""
        try:
            schedstat = Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text()
        except OSError as error:
            raise ChildEnded from error
        return int(schedstat.split()[1]) * 1e-9

    def _thread_times(self) -> tuple[int, int]:
        """Time on a core and time waiting for one so far, in ns, all threads together."""
        ran = waited = 0
        try:
            for schedstat in self._of_threads("schedstat"):
                one, other, _ = schedstat.split()
                ran, waited = ran + int(one), waited + int(other)
        except OSError as error:
            raise ChildEnded from error
        return ran, waited

    def _of_threads(self, name: str) -> list[bytes]:
        """The file `name` of every thread, from /proc. In few calls: this is done around every timed window."""
        found = []
        for task in os.listdir(f"/proc/{self.pid}/task"):
            descriptor = os.open(f"/proc/{self.pid}/task/{task}/{name}", os.O_RDONLY)
            found.append(os.read(descriptor, 1024))
            os.close(descriptor)
        return found

    def close(self) -> str:
        """Give back the descriptors; returns the end of what the program printed."""
        self.channel.close()
        if self.handle >= 0:
            os.close(self.handle)
        size = os.fstat(self.log).st_size
        text = os.pread(self.log, 2000, max(0, size - 2000)).decode(errors="replace")
        os.close(self.log)
        return printable(text)


def _go(variant: int, count: int) -> bytes:
    return b"go" + struct.pack("qq", variant, count)


def _times(packet: bytes) -> list[int]:
    if len(packet) % 8:
        raise ChildEnded
    return list(struct.unpack(f"{len(packet) // 8}q", packet))
