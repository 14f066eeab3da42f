"""What an NVIDIA GPU's sensors say, through its management library (NVML).

Source: the NVML API reference (nvml.h).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

_MULTIPROCESSORS_CLOCK, _ON_CHIP = 1, 0


class Sensors:
    """One GPU's. What a sensor does not tell is left out."""

    def __init__(self, library: Any, handle: ctypes.c_void_p):
        self.library = library
        self.handle = handle

    @classmethod
    def of(cls, pci_address: str) -> Sensors | None:
        """The GPU there; None without the library, or where it does not know the GPU."""
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return None
        handle = ctypes.c_void_p()
        if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByPciBusId_v2(
            pci_address.encode(), ctypes.byref(handle)
        ):
            return None
        return cls(library, handle)

    def read(self) -> dict[str, float]:
        """`mhz` of the multiprocessors, `celsius`, `watts`, and `throttled`: the reasons as a bit set, 0 for none."""
        library, handle = self.library, self.handle
        mhz, celsius, milliwatts = (ctypes.c_uint() for _ in range(3))
        reasons = ctypes.c_ulonglong()
        asked: list[tuple[str, Callable[[], int], Any, float]] = [
            ("mhz", lambda: library.nvmlDeviceGetClockInfo(handle, _MULTIPROCESSORS_CLOCK, ctypes.byref(mhz)), mhz, 1),
            ("celsius", lambda: library.nvmlDeviceGetTemperature(handle, _ON_CHIP, ctypes.byref(celsius)), celsius, 1),
            ("watts", lambda: library.nvmlDeviceGetPowerUsage(handle, ctypes.byref(milliwatts)), milliwatts, 1e-3),
            (
                "throttled",
                lambda: library.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(reasons)),
                reasons,
                1,
            ),
        ]
        return {name: value.value * scale for name, ask, value, scale in asked if ask() == 0}
