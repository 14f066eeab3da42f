"""What devices there are, for people: each by its key, with what it can do or why it is not here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kevolve.devices.device import Peaks
from kevolve.devices.registry import device_names, find_devices
from kevolve.errors import UsageError


@dataclass(frozen=True)
class Row:
    """One device. `why_absent` is empty if it is here; `peaks` is None until they have been measured."""

    name: str
    key: str = ""
    languages: tuple[str, ...] = ()
    toolchain: str = ""
    peaks: Peaks | None = None
    why_absent: str = ""

    @property
    def rates(self) -> str:
        """The measured peaks in one line."""
        if self.peaks is None:
            return "not measured yet"
        gigabytes = self.peaks.copy_bytes_per_s / 1e9, self.peaks.cache_read_bytes_per_s / 1e9
        flops = self.peaks.flops_per_s / 1e9
        return f"copy {gigabytes[0]:.0f}, cache {gigabytes[1]:.0f} GB/s, {flops:.0f} GFLOP/s"


def rows() -> Iterator[Row]:
    """Every device that kevolve knows, present or not."""
    for name in device_names():
        try:
            device = find_devices(name)[0]
            target = device.target
            toolchain = f"{target.toolchain} for {target.architecture}"
            yield Row(name, device.key, device.languages, toolchain, device.known_peaks())
        except UsageError as error:
            yield Row(name, why_absent=str(error))
        except Exception as error:  # any: a device of another package may fail in its own way
            yield Row(name, why_absent=f"it cannot be used here ({type(error).__name__}: {error})")
