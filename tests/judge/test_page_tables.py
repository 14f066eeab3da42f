"""What a process has read of a memory file: only its own reading counts, whatever others do with the same memory."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kevolve.judge.page_tables import forget_reads, read_bytes

PAGE = mmap.PAGESIZE
PAGES = 64
READS_ALL = """
import mmap, sys
memory = mmap.mmap(int(sys.argv[1]), 0, prot=mmap.PROT_READ)
print(sum(memory[::mmap.PAGESIZE]), flush=True)
sys.stdin.read()
"""


@contextmanager
def mapped() -> Iterator[tuple[int, mmap.mmap]]:
    """A memory file, and all of it mapped and read by this process."""
    fd = os.memfd_create("read-of")
    os.ftruncate(fd, PAGES * PAGE)
    with mmap.mmap(fd, PAGES * PAGE) as memory:
        memory.write(b"\1" * PAGES * PAGE)
        yield fd, memory
    os.close(fd)


def test_pages_that_were_read_are_counted() -> None:
    with mapped() as (fd, memory):
        if not forget_reads([os.getpid()]):
            pytest.skip("the kernel does not take marks back here")
        assert read_bytes(os.getpid(), fd) == (0, PAGES * PAGE)
        assert memory[5 * PAGE] + memory[9 * PAGE + 7] + memory[9 * PAGE + 8] == 3
        assert read_bytes(os.getpid(), fd)[0] == 2 * PAGE


def test_what_another_process_read_before_does_not_count_when_it_ends() -> None:
    with mapped() as (fd, _):
        other = subprocess.Popen(
            [sys.executable, "-c", READS_ALL, str(fd)],
            pass_fds=[fd],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert other.stdout is not None
        assert int(other.stdout.readline()) == PAGES
        if not forget_reads([other.pid, os.getpid()]):
            pytest.skip("the kernel does not take marks back here")
        other.communicate()
        assert read_bytes(os.getpid(), fd)[0] == 0
