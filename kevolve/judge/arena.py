"""Shared memory between judge and child: laid out by the judge, with guard zones that must stay untouched.

The inputs' memory is sealed against the child: it can be mapped for reading only, whatever the child tries.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from dataclasses import dataclass
from typing import Any

import torch

GUARD_BYTES = 4096
_F_SEAL_FUTURE_WRITE = 0x0010
_ALIGNMENT = 64


@dataclass(frozen=True)
class Region:
    """A tensor's place in an arena. `offset` counts bytes from the arena's start."""

    offset: int
    tensor: torch.Tensor


class Arena:
    """A memory file with a bump allocator. `read_only` ones cannot be written by anyone who maps them later.

    Its first `reserved` bytes are never given out.
    """

    def __init__(self, size: int, *, read_only: bool, reserved: int = 0):
        self.size = size
        self.reserved = reserved
        self.fd = os.memfd_create("kevolve-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        self.memory = mmap.mmap(self.fd, size)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | (_F_SEAL_FUTURE_WRITE if read_only else 0)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
        self.bytes: Any = torch.frombuffer(self.memory, dtype=torch.uint8)
        self.next = reserved

    def reset(self) -> None:
        """Forget every region: the next ones start at the beginning."""
        self.next = self.reserved

    def place(self, shape: tuple[int, ...], dtype: torch.dtype, *, shift: int = 0) -> Region:
        """Room for a contiguous tensor, `shift` elements off alignment, with a guard zone on both sides.

        Raises MemoryError when the arena is full.
        """
        count = 1
        for length in shape:
            count *= length
        itemsize = dtype.itemsize
        start = -(-(self.next + GUARD_BYTES) // _ALIGNMENT) * _ALIGNMENT + shift * itemsize
        end = start + count * itemsize
        if end + GUARD_BYTES > self.size:
            raise MemoryError(f"an arena of {self.size >> 20} MiB is too small: {end >> 20} MiB are needed")
        self.next = end + GUARD_BYTES  # no two regions share a zone
        tensor = self.bytes[start:end].view(dtype).view(shape) if count else torch.empty(shape, dtype=dtype)
        return Region(start, tensor)

    def place_last(self, shape: tuple[int, ...], dtype: torch.dtype) -> Region:
        """Room for a tensor at the very end of the memory: whoever goes past its end in a child is ended by SIGBUS."""
        start = self.size - torch.Size(shape).numel() * dtype.itemsize
        if start < self.next:
            raise MemoryError(f"an arena of {self.size >> 20} MiB is too small")
        return Region(
            start, self.bytes[start:].view(dtype).view(shape) if start < self.size else torch.empty(shape, dtype=dtype)
        )

    def around(self, region: Region) -> tuple[torch.Tensor, torch.Tensor]:
        """The guard zones before and after a region, as views; there is none after the end of the memory."""
        end = region.offset + region.tensor.numel() * region.tensor.element_size()
        return self.bytes[region.offset - GUARD_BYTES : region.offset], self.bytes[end : end + GUARD_BYTES]

    def guards(self, region: Region) -> torch.Tensor:
        """The bytes of both guard zones, as one copy."""
        return torch.cat(self.around(region))

    def close(self) -> None:
        """Give the memory back once no view of it is left."""
        self.bytes = None
        os.close(self.fd)
