"""The devices by name, those of other packages included (entry point group `kevolve.devices`)."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from kevolve.devices.cpu import Cpu
from kevolve.devices.cuda import Cuda
from kevolve.devices.device import Device
from kevolve.errors import UsageError, nearest

GROUP = "kevolve.devices"
OWN: dict[str, Any] = {Cuda.name: Cuda, Cpu.name: Cpu}


def device_names() -> list[str]:
    """Every device that kevolve knows, present or not."""
    return sorted({*OWN, *(entry.name for entry in entry_points(group=GROUP))})


def find_devices(name: str = "auto", language: str | None = None) -> list[Device]:
    """The device called `name`, or what is here for `auto`; with `language`, one that runs its programs.

    The CPU counts for `auto` only where there is nothing else: whoever has a GPU wants their kernels there.
    UsageError says what is missing.
    """
    known = OWN | {entry.name: entry.load() for entry in entry_points(group=GROUP)}
    if name != "auto" and name not in known:
        choices = ", ".join(("auto", *sorted(known)))
        raise UsageError(f"device={name} is not known.{nearest(name, known)} Devices: {choices}.")
    wanted = known if name == "auto" else {name: known[name]}
    fit = {key: kind for key, kind in wanted.items() if language is None or language in kind.languages}
    if not fit:
        here = ", ".join(key for key, kind in known.items() if language in kind.languages) or "none"
        raise UsageError(f"device={name} does not run {language} programs. Devices that do: {here}.")
    present: list[Device] = [device for device in (kind() for kind in fit.values()) if device.present()]
    if present:
        return [device for device in present if device.name != "cpu"] or present
    raise UsageError(_why_absent("auto" if "cpu" in fit else next(iter(fit))))


def _why_absent(name: str) -> str:
    if name == "auto":
        return "the cpu device needs g++, which is not on this machine.\n  Type `apt-get install g++`, then try again."
    if name == "cuda":
        return f"device=cuda cannot be used here: {Cuda().lacks()}, or type device=auto to use what is here."
    return f"device={name} was asked for, but this machine has none. Type device=auto to use what is here."
