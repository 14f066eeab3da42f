"""The judge's end of a conversation with a process on the device: a program's child, or the baseline process."""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kevolve.judge.sandbox.exits import ChildEnded, ChildLate

_PACKET = 1 << 20
_GREETING_SECONDS = 60.0


class Queueing:
    """How long the device waits before a block, so that it finds all calls queued: users' graphs launch at no cost.

    As long as queueing took the last time, and a quarter more.
    """

    def __init__(self, call_s: float, most_s: float):
        """`call_s` is what a call may take to queue, as long as nothing is known; no wait is longer than `most_s`."""
        self.call_s = call_s
        self.most_s = most_s

    def wait_s(self, calls: int) -> float:
        """Before a block of that many calls."""
        return min(self.most_s, self.call_s * calls)

    def took(self, seconds: float, calls: int) -> None:
        """Remember what queueing took, by the process's own word."""
        if calls:
            self.call_s = min(self.most_s, max(0.0, 1.25 * seconds / calls))


class Peer:
    """One process. `greeting` is its first message, `log` an open file with what it prints."""

    def __init__(self, channel: socket.socket, log: int):
        self.channel = channel
        self.log = log
        self.pid = 0
        self.handle = -1
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)

    def greet(self) -> None:
        """Wait for the first message and learn the process id, translated by the kernel into ours."""
        if not select.select([self.channel], [], [], _GREETING_SECONDS)[0]:
            raise ChildLate
        packet, ancillary, _, _ = self.channel.recvmsg(_PACKET, socket.CMSG_SPACE(struct.calcsize("3i")))
        if not packet:
            raise ChildEnded
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                self.pid = struct.unpack("3i", data)[0]
        self.channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
        self.handle = os.pidfd_open(self.pid)

    def ask(self, message: Mapping[str, Any], seconds: float, descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """Send a message and wait for the answer. Raises ChildEnded or ChildLate."""
        return self._exchange(json.dumps(message).encode(), seconds, descriptors)

    def go(self, seconds: float, wait_s: float) -> tuple[float, dict[str, Any]]:
        """Run the prepared calls after a wait: the judge's window in seconds, less the wait, and the answer.

        The device is turned to the process first: that it was another's before is nobody's fault.
        """
        self._exchange(b"wake", seconds)
        start = time.perf_counter()
        answer = self._exchange(b"go %d" % round(wait_s * 1e9), seconds + wait_s)
        return time.perf_counter() - start - wait_s, answer

    def _exchange(self, packet: bytes, seconds: float, descriptors: Sequence[int] = ()) -> dict[str, Any]:
        try:
            socket.send_fds(self.channel, [packet], descriptors)
            # The handle is watched too: something that the process left may hold the channel open after its end.
            ready, _, _ = select.select([self.channel.fileno(), self.handle], [], [], max(seconds, 0.0))
            if not ready:
                raise ChildLate
            answer = self.channel.recv(_PACKET, socket.MSG_DONTWAIT)
        except (BrokenPipeError, ConnectionResetError, BlockingIOError) as error:
            raise ChildEnded from error
        if not answer:
            raise ChildEnded
        try:
            found: dict[str, Any] = json.loads(answer)
        except ValueError as error:
            raise ChildEnded from error
        return found

    def last_words(self) -> str:
        """The end of what the process printed."""
        size = os.fstat(self.log).st_size
        return os.pread(self.log, 2000, max(0, size - 2000)).decode(errors="replace").strip()

    def close(self) -> str:
        """Give back the descriptors; returns the end of what the process printed."""
        self.channel.close()
        if self.handle >= 0:
            os.close(self.handle)
        words = self.last_words()
        os.close(self.log)
        return words
