"""What a process has read of a memory file, by its page tables: the processor marks every page that it looks up.

`smaps` counts a page as read where any process's mark has been found and taken back meanwhile, as the kernel does where
it watches memory (DAMON) or runs out of it. So the marks of everybody who has mapped the file are taken back before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from kevolve.judge.sandbox.exits import ChildEnded


def forget_reads(pids: Iterable[int]) -> bool:
    """From now on `read_bytes` counts what these processes read. False where the kernel does not allow that.

    `pids` are all that have mapped the file; those asked about come last, so that no mark of another outlives theirs.
    """
    try:
        for pid in pids:
            Path(f"/proc/{pid}/clear_refs").write_text("1")
    except OSError:
        return False
    return True


def read_bytes(pid: int, memory: int) -> tuple[int, int]:
    """Of the memory file with descriptor `memory`: bytes read since `forget_reads`, and bytes mapped, in whole pages.

    Wherever the process has mapped it. Raises ChildEnded if the process is no more.
    """
    status = os.fstat(memory)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    found, is_inside = {"Referenced:": 0, "Rss:": 0}, False
    try:
        lines = Path(f"/proc/{pid}/smaps").read_text().splitlines()
    except OSError as error:
        raise ChildEnded from error
    for line in lines:
        words = line.split()
        if not words[0].endswith(":"):
            is_inside = len(words) > 4 and words[3:5] == [device, str(status.st_ino)]
        elif is_inside and words[0] in found:
            found[words[0]] += int(words[1]) << 10
    return found["Referenced:"], found["Rss:"]
