"""How a child of the fork server can end, and what is said of it."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

OUTPUT_BYTES = 1 << 20  # a program may print this much; more ends it with SIGXFSZ


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
                "made a system call that no program needs (to start, signal or inspect another process, open a socket,"
                " share memory, change the clock, its priority or its rights, or reach into the kernel)"
            )
        if self.signal == signal.SIGBUS:
            return "went past the end of an input or output (SIGBUS)"
        if self.signal == signal.SIGXFSZ:
            return f"printed or wrote more than {OUTPUT_BYTES >> 20} MiB"
        if self.signal == signal.SIGXCPU:
            return "used up its processor time"
        if memory_bytes and self.peak_bytes > memory_bytes // 2:
            return f"ran out of memory: it held {self.peak_bytes >> 20} MiB, {memory_bytes >> 20} MiB are allowed"
        if self.signal is not None:
            return f"was ended by {signal.Signals(self.signal).name} ({signal.strsignal(self.signal)})"
        return f"ended before it answered (exit status {self.exit})"

    def was_picked_for_memory(self, memory_bytes: int, kills: int) -> bool:
        """Did the kernel end it because the machine had no memory left, though it held little of what it may?

        `kills` is what `out_of_memory_kills` said before.
        """
        held_little = self.peak_bytes <= memory_bytes // 2
        return self.signal == signal.SIGKILL and held_little and out_of_memory_kills() > kills


def out_of_memory_kills() -> int:
    """How many processes the kernel has ended for want of memory since it was started."""
    lines = Path("/proc/vmstat").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


class ChildEnded(Exception):
    """The child is gone. The caller asks the server how it ended."""


class ChildRan(ChildEnded):
    """The child ran while it was stopped. The kernel can be made to continue a process by a timer, for example."""


class ChildLate(Exception):
    """The child did not answer in time."""


def printable(text: str, most: int = 2000) -> str:
    """What a program says, or a compiler about it, fit for a terminal: no control characters, and not for ever."""
    kept = "".join(character for character in text if character.isprintable() or character in "\n\t")
    return kept.strip()[:most]
