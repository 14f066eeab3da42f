"""The files of conf/: which groups and options there are, in the project's tree and in the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kevolve import paths
from kevolve.errors import UsageError

# The groups that a command line may choose from; conf/operator/ is read by the operators room.
GROUPS = ("device", "proposer", "policy", "judge", "cluster", "tracking", "experiment")


def folders(own: str | None) -> list[Path]:
    """Folders to search: the project's tree and the user's own (`--config-dir`).

    UsageError if the user's is not there, or holds a file that the project has too: an experiment's name in a
    record has to mean one file.
    """
    if own is None:
        return [paths.conf_dir()]
    folder = Path(own).expanduser().resolve()
    if not folder.is_dir():
        raise UsageError(f"--config-dir {own}: there is no such folder. Type the folder that holds experiment/.")
    ours = [file.relative_to(folder) for file in sorted(folder.rglob("*.yaml"))]
    twice = [str(file) for file in ours if (paths.conf_dir() / file).exists()]
    if twice:
        raise UsageError(f"--config-dir {own}: kevolve has its own {', '.join(twice)}. Give yours another name.")
    return [paths.conf_dir(), folder]


def options(group: str, searched: Sequence[Path]) -> list[str]:
    """The names that `group=NAME` accepts."""
    return sorted({file.stem for folder in searched for file in (folder / group).glob("*.yaml")})


def find(group: str, option: str, searched: Sequence[Path]) -> Path | None:
    """The file of an option."""
    candidates = (folder / group / f"{option}.yaml" for folder in searched)
    return next((file for file in candidates if file.is_file()), None)
