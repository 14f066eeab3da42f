"""The devices by name, those of other packages included (entry point group `kevolve.devices`)."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from kevolve.devices.cpu import Cpu
from kevolve.devices.cuda import Cuda
from kevolve.devices.device import Device
from kevolve.devices.elsewhere import Elsewhere
from kevolve.devices.mtia import Mtia
from kevolve.devices.rocm import Rocm
from kevolve.errors import UsageError, nearest

GROUP = "kevolve.devices"
OWN: dict[str, Any] = {Cuda.name: Cuda, Rocm.name: Rocm, Mtia.name: Mtia, Cpu.name: Cpu}


def device_names() -> list[str]:
    """Every device that kevolve knows, present or not."""
    return sorted({*OWN, *(entry.name for entry in entry_points(group=GROUP))})


def find_devices(name: str = "auto", language: str | None = None) -> list[Device]:
    """The device called `name`, or what is here for `auto`; with `language`, one that runs its programs.

    The CPU counts for `auto` only where there is nothing else: whoever has a GPU wants their kernels there.
    UsageError says what is missing.
    """
    fit = _fitting(name, language)
    present: list[Device] = [device for device in (kind() for kind in fit.values()) if device.present()]
    if present:
        return [device for device in present if device.name != "cpu"] or present
    raise UsageError(_why_absent("cpu" if name == "auto" and "cpu" in fit else next(iter(fit)), fit))


def find_device_to_judge(name: str, language: str) -> Device:
    """The device to judge one program on: as `find_devices`, or one that is not here and was asked for by name, where
    some of the stages can be had for it nonetheless."""
    if name != "auto":
        (kind,) = _fitting(name, language).values()
        device: Device = kind()
        if device.present() or device.stages_anywhere:
            return device
    return find_devices(name, language)[0]


def refuse_elsewhere(name: str) -> None:
    """UsageError if only another node can have the device: to be said before anything is started."""
    kind = _known(name).get(name)
    if isinstance(kind, type) and issubclass(kind, Elsewhere):
        raise UsageError(_why_absent(name, {name: kind}))


def _fitting(name: str, language: str | None) -> dict[str, Any]:
    """The kinds of device that are meant, by name: one at least."""
    known = _known(name)
    if name != "auto" and name not in known:
        choices = ", ".join(("auto", *sorted(known)))
        raise UsageError(f"device={name} is not known.{nearest(name, known)} Devices: {choices}.")
    wanted = known if name == "auto" else {name: known[name]}
    fit = {key: kind for key, kind in wanted.items() if language is None or language in kind.languages}
    if not fit:
        here = ", ".join(key for key, kind in known.items() if language in kind.languages) or "none"
        raise UsageError(f"device={name} does not run {language} programs. Devices that do: {here}.")
    return fit


def _known(wanted: str) -> dict[str, Any]:
    """Kevolve's own and those of other packages, which take the place of ours if they have its name.

    A package that cannot be imported is in nobody's way but of those who want its device.
    """
    known = dict(OWN)
    for entry in entry_points(group=GROUP):
        try:
            known[entry.name] = entry.load()
        except Exception as error:  # any: it is another package's code
            if entry.name == wanted:
                raise UsageError(_why_broken(entry, error)) from error
            known.pop(entry.name, None)
    return known


def _why_broken(entry: EntryPoint, error: Exception) -> str:
    owner = f" of the package {entry.dist.name}" if entry.dist else ""
    return (
        f"device={entry.name} cannot be used here: {entry.value}{owner} cannot be imported"
        f" ({type(error).__name__}: {error}).\n  Mend or uninstall it, or type device=auto to use what is here."
    )


def _why_absent(name: str, kinds: dict[str, Any]) -> str:
    lacks = kinds[name]().lacks()
    if name == "cpu":
        return f"the cpu device {lacks}."
    instead = "" if "device=auto" in lacks else ", or type device=auto to use what is here"
    return f"device={name} cannot be used here: {lacks}{instead}."
