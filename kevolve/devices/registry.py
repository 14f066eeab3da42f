"""The devices by name, those of other packages included (entry point group `kevolve.devices`)."""

from __future__ import annotations

from importlib.metadata import entry_points

from kevolve.devices.cpu import Cpu
from kevolve.devices.device import Device
from kevolve.errors import UsageError, nearest

GROUP = "kevolve.devices"


def device_names() -> list[str]:
    """Every device that kevolve knows, present or not."""
    return sorted({Cpu.name, *(entry.name for entry in entry_points(group=GROUP))})


def find_devices(name: str = "auto") -> list[Device]:
    """The device called `name`, or every present one for `auto`. UsageError says what is missing."""
    known = {Cpu.name: Cpu} | {entry.name: entry.load() for entry in entry_points(group=GROUP)}
    if name != "auto" and name not in known:
        choices = ", ".join(("auto", *sorted(known)))
        raise UsageError(f"device={name} is not known.{nearest(name, known)} Devices: {choices}.")
    wanted = known if name == "auto" else {name: known[name]}
    present: list[Device] = [device for device in (kind() for kind in wanted.values()) if device.present()]
    if present:
        return present
    if name in ("auto", "cpu"):
        raise UsageError(
            "the cpu device needs g++, which is not on this machine.\n  Type `apt-get install g++`, then try again."
        )
    raise UsageError(f"device={name} was asked for, but this machine has none. Type device=auto to use what is here.")
