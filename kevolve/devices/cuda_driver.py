"""The CUDA driver through ctypes: what the device, the judge and the process beside a program need of it.

Loaded by path inside the sandbox, so standard library only. Every call that fails raises `CudaError` with the driver's
name for the error. Source: the CUDA driver API reference (cuda.h).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

_U64, _INT, _UINT, _POINTER = ctypes.c_uint64, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p

ATTRIBUTES = {
    "multiprocessors": 16,
    "clock_khz": 13,
    "l2_bytes": 38,
    "major": 75,
    "minor": 76,
    "shared_bytes": 97,
}
_FUNCTION_LOCAL, _FUNCTION_REGISTERS, _FUNCTION_MAX_DYNAMIC_SHARED = 3, 4, 8
_POSIX_DESCRIPTOR, _PINNED, _ON_DEVICE = 1, 1, 1
_READ, _READ_AND_WRITE = 1, 3


class CudaError(Exception):
    """A call of the driver that failed. `code` is its CUresult."""

    def __init__(self, code: int, name: str, words: str):
        super().__init__(f"{words} ({name})")
        self.code = code


class _Location(ctypes.Structure):
    _fields_ = (("type", _INT), ("id", _INT))


class _AllocationProperties(ctypes.Structure):
    _fields_ = (
        ("type", _INT), ("handle_types", _INT), ("location", _Location), ("win32", _POINTER),
        ("compression", ctypes.c_ubyte), ("rdma", ctypes.c_ubyte), ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    )  # fmt: skip


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", _INT))


class Driver:
    """libcuda. `start` makes a context on the first visible device current in this thread."""

    def __init__(self) -> None:
        """OSError where there is no driver, CudaError where it has no device that works."""
        self.library = ctypes.CDLL(os.environ.get("KEVOLVE_LIBCUDA", "libcuda.so.1"))
        self("cuInit", _UINT(0))
        self.device = _INT()

    def __call__(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise self.error(code)

    def error(self, code: int) -> CudaError:
        """What the driver says of a CUresult."""
        name, words = ctypes.c_char_p(), ctypes.c_char_p()
        self.library.cuGetErrorName(_INT(code), ctypes.byref(name))
        self.library.cuGetErrorString(_INT(code), ctypes.byref(words))
        return CudaError(code, (name.value or b"?").decode(), (words.value or b"error").decode())

    def count(self) -> int:
        """Visible devices."""
        found = _INT()
        self("cuDeviceGetCount", ctypes.byref(found))
        return found.value

    def name(self, device: int = 0) -> str:
        """What the device calls itself."""
        buffer = ctypes.create_string_buffer(256)
        self("cuDeviceGetName", buffer, _INT(256), _INT(device))
        return buffer.value.decode()

    def pci_address(self, device: int = 0) -> str:
        """Where the device is, such as 0000:3b:00.0: the same for every library."""
        buffer = ctypes.create_string_buffer(32)
        self("cuDeviceGetPCIBusId", buffer, _INT(32), _INT(device))
        return buffer.value.decode()

    def attribute(self, name: str, device: int = 0) -> int:
        """One of `ATTRIBUTES`."""
        found = _INT()
        self("cuDeviceGetAttribute", ctypes.byref(found), _INT(ATTRIBUTES[name]), _INT(device))
        return found.value

    def memory(self, device: int = 0) -> int:
        """Bytes of memory that the device has."""
        found = ctypes.c_size_t()
        self("cuDeviceTotalMem_v2", ctypes.byref(found), _INT(device))
        return found.value

    def start(self) -> None:
        """The primary context of device 0, current from now on."""
        context = _POINTER()
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self("cuCtxSetCurrent", context)

    def synchronize(self) -> None:
        """Wait for everything that this process has asked of the device."""
        self("cuCtxSynchronize")

    # ------------------------------------------------------------------------------------- memory that is shared

    def create(self, size: int) -> int:
        """A handle of `size` bytes of device memory that other processes can map; see `granularity`."""
        handle, properties = _U64(), self._properties()
        self("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties), _U64(0))
        return handle.value

    def granularity(self) -> int:
        """What sizes of shared memory must be a multiple of."""
        found, properties = ctypes.c_size_t(), self._properties()
        self("cuMemGetAllocationGranularity", ctypes.byref(found), ctypes.byref(properties), _INT(1))
        return found.value

    def exported(self, handle: int) -> int:
        """A file descriptor that stands for the memory."""
        descriptor = _INT(-1)
        self("cuMemExportToShareableHandle", ctypes.byref(descriptor), _U64(handle), _INT(_POSIX_DESCRIPTOR), _U64(0))
        return descriptor.value

    def imported(self, descriptor: int) -> int:
        """The handle of memory that another process has exported."""
        handle = _U64()
        self("cuMemImportFromShareableHandle", ctypes.byref(handle), _POINTER(descriptor), _INT(_POSIX_DESCRIPTOR))
        return handle.value

    def map(self, handle: int, size: int, *, may_write: bool) -> int:
        """Address of the memory in this process. Raises CudaError where reading alone cannot be had."""
        address = _U64()
        self("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_size_t(0), _U64(0), _U64(0))
        self("cuMemMap", address, ctypes.c_size_t(size), ctypes.c_size_t(0), _U64(handle), _U64(0))
        access = _Access(_Location(_ON_DEVICE, self.device.value), _READ_AND_WRITE if may_write else _READ)
        self("cuMemSetAccess", address, ctypes.c_size_t(size), ctypes.byref(access), ctypes.c_size_t(1))
        return address.value

    def _properties(self) -> _AllocationProperties:
        return _AllocationProperties(_PINNED, _POSIX_DESCRIPTOR, _Location(_ON_DEVICE, self.device.value))

    # ------------------------------------------------------------------------------------------ memory of one's own

    def allocate(self, size: int) -> int:
        """Address of `size` bytes, never given back."""
        address = _U64()
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def clear(self, address: int, size: int) -> None:
        """Set to zero, in the order of the stream."""
        self("cuMemsetD8Async", _U64(address), ctypes.c_ubyte(0), ctypes.c_size_t(size), _POINTER(0))

    # ----------------------------------------------------------------------------------------------------- kernels

    def load(self, cubin: bytes) -> int:
        """A module of compiled kernels."""
        module = _POINTER()
        self("cuModuleLoadData", ctypes.byref(module), cubin)
        return module.value or 0

    def function(self, module: int, name: str, shared_bytes: int) -> int:
        """A kernel of a module, allowed that much dynamic shared memory."""
        function = _POINTER()
        self("cuModuleGetFunction", ctypes.byref(function), _POINTER(module), name.encode())
        if shared_bytes > 48 << 10:
            self("cuFuncSetAttribute", function, _INT(_FUNCTION_MAX_DYNAMIC_SHARED), _INT(shared_bytes))
        return function.value or 0

    def resources(self, function: int) -> dict[str, int]:
        """Registers of a thread, and bytes of local memory that it spills to."""
        found = {}
        for name, attribute in (("registers", _FUNCTION_REGISTERS), ("local_bytes", _FUNCTION_LOCAL)):
            value = _INT()
            self("cuFuncGetAttribute", ctypes.byref(value), _INT(attribute), _POINTER(function))
            found[name] = value.value
        return found

    # ------------------------------------------------------------------------------------------------------ events

    def event(self) -> Any:
        """An event that keeps the time."""
        event = _POINTER()
        self("cuEventCreate", ctypes.byref(event), _UINT(0))
        return event

    def record(self, event: Any) -> None:
        """The event happens when what was asked for so far is done."""
        self("cuEventRecord", event, _POINTER(0))

    def elapsed_s(self, start: Any, end: Any) -> float:
        """Seconds between two events that have happened."""
        milliseconds = ctypes.c_float()
        self("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return milliseconds.value / 1e3


def packed(kinds: Sequence[str], values: Sequence[int | float | None]) -> Any:
    """Kernel parameters as the driver wants them: an array of pointers. The array keeps what it points to."""
    boxes = [_BOXES[kind[0] if kind[0] == "*" else kind](value) for kind, value in zip(kinds, values, strict=True)]
    pointers: Any = (_POINTER * len(boxes))(*(ctypes.cast(ctypes.byref(box), _POINTER) for box in boxes))
    pointers.boxes = boxes
    return pointers


_BOXES: dict[str, Any] = {
    "*": _U64, "i32": ctypes.c_int32, "i64": ctypes.c_int64, "u64": _U64, "u1": ctypes.c_uint8, "fp32": ctypes.c_float,
}  # fmt: skip
