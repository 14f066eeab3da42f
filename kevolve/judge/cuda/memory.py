"""Device memory that judge, child and baseline process share, laid out by the judge with guard zones."""

from __future__ import annotations

import math
from typing import Any

import torch

from kevolve.devices.cuda_driver import Driver
from kevolve.judge.arena import Region

GUARD_BYTES = 4096
_ALIGNMENT = 512


class Shared:
    """Memory of the judge's context that other processes map through `descriptor`. `bytes` is all of it, uint8."""

    def __init__(self, driver: Driver, size: int):
        """`size` bytes, rounded up to what the driver can share. CudaError where there is not that much."""
        granularity = driver.granularity()
        self.size = -(-size // granularity) * granularity
        self.driver = driver
        self.handle = driver.create(self.size)
        self.descriptor = driver.exported(self.handle)
        self.address = driver.map(self.handle, self.size, may_write=True)
        self.bytes = tensor_at(self.address, self.size)


class Mapped:
    """The same memory in another process of ours."""

    def __init__(self, driver: Driver, descriptor: int, size: int):
        self.address = driver.map(driver.imported(descriptor), size, may_write=True)
        self.bytes = tensor_at(self.address, size)


class Arena:
    """A bump allocator on shared memory."""

    def __init__(self, shared: Shared):
        self.shared = shared
        self.bytes = shared.bytes
        self.size = shared.size
        self.next = 0

    def reset(self) -> None:
        """Forget every region: the next ones start at the beginning."""
        self.next = 0

    def place(self, shape: tuple[int, ...], dtype: torch.dtype, *, shift: int = 0) -> Region:
        """Room for a contiguous tensor, `shift` elements off alignment, with a guard zone on both sides.

        Raises MemoryError when the arena is full.
        """
        start = -(-(self.next + GUARD_BYTES) // _ALIGNMENT) * _ALIGNMENT + shift * dtype.itemsize
        end = start + math.prod(shape) * dtype.itemsize
        if end + GUARD_BYTES > self.size:
            raise MemoryError(f"an arena of {self.size >> 20} MiB is too small: {end >> 20} MiB are needed")
        self.next = end
        return Region(start, self.bytes[start:end].view(dtype).view(shape))

    def around(self, region: Region) -> tuple[torch.Tensor, torch.Tensor]:
        """The guard zones before and after a region, as views."""
        end = region.offset + region.tensor.numel() * region.tensor.element_size()
        return self.bytes[region.offset - GUARD_BYTES : region.offset], self.bytes[end : end + GUARD_BYTES]


class _Array:
    """Memory at an address, as other libraries ask for it."""

    def __init__(self, address: int, size: int):
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3,
        }  # fmt: skip


def tensor_at(address: int, size: int) -> torch.Tensor:
    """uint8 [size] over memory that is already there."""
    return torch.as_tensor(_Array(address, size), device="cuda")
