"""The files of conf/: which groups and options there are, in the project's tree and in the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from kevolve import paths
from kevolve.errors import UsageError

# The groups that a command line may choose from; conf/operator/ is read by the operators room.
GROUPS = ("device", "proposer", "policy", "judge", "cluster", "tracking", "experiment")


def folders(own: str | None) -> list[Path]:
    """Folders to search: the project's tree, those of packages with devices, and the user's own (`--config-dir`).

    UsageError if the user's is not there, or holds a file that the project has too: an experiment's name in a
    record has to mean one file.
    """
    known = [paths.conf_dir(), *_of_devices()]
    if own is None:
        return known
    folder = Path(own).expanduser().resolve()
    if not folder.is_dir():
        raise UsageError(f"--config-dir {own}: there is no such folder. Type the folder that holds experiment/.")
    ours = [file.relative_to(folder) for file in sorted(folder.rglob("*.yaml"))]
    twice = [str(file) for file in ours if (paths.conf_dir() / file).exists()]
    if twice:
        raise UsageError(f"--config-dir {own}: kevolve has its own {', '.join(twice)}. Give yours another name.")
    return [*known, folder]


def _of_devices() -> list[Path]:
    """`conf/` in each package that brings a device (entry point group `kevolve.devices`)."""
    found = []
    for package in {entry.module.partition(".")[0]: None for entry in entry_points(group="kevolve.devices")}:
        spec = find_spec(package)
        places = spec.submodule_search_locations if spec else None
        found += [Path(place, "conf").resolve() for place in places or () if Path(place, "conf").is_dir()]
    return found


def options(group: str, searched: Sequence[Path]) -> list[str]:
    """The names that `group=NAME` accepts."""
    return sorted({file.stem for folder in searched for file in (folder / group).glob("*.yaml")})


def find(group: str, option: str, searched: Sequence[Path]) -> Path | None:
    """The file of an option."""
    candidates = (folder / group / f"{option}.yaml" for folder in searched)
    return next((file for file in candidates if file.is_file()), None)
