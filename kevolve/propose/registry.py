"""The proposers by name: kevolve's own, and those that other packages bring.

A package adds one under the entry point group `kevolve.proposers`: a callable that takes the proposer's
configuration and gives a `Proposer`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, cast

from kevolve.errors import UsageError, nearest

if TYPE_CHECKING:
    from kevolve.config import ProposerConfig
    from kevolve.propose.proposer import Proposer, Resident

GROUP = "kevolve.proposers"


def _genetic(config: ProposerConfig) -> Proposer:
    from kevolve.propose.genetic import Genetic

    return Genetic(structure_rate=config.structure_rate)


def _grid(config: ProposerConfig) -> Proposer:
    from kevolve.propose.grid import Grid

    return Grid()


def _llm(config: ProposerConfig) -> Resident:
    from kevolve.propose.llm.proposer import Llm

    return Llm(config)


def _mailbox(config: ProposerConfig) -> Resident:
    from kevolve.propose.mailbox import Mailbox

    return Mailbox(config)


_OWN: dict[str, Callable[[ProposerConfig], Proposer | Resident]] = {
    "genetic": _genetic,
    "grid": _grid,
    "llm": _llm,
    "mailbox": _mailbox,
}


def proposer_names() -> tuple[str, ...]:
    """Every proposer that can be asked for, kevolve's own first."""
    found = sorted(point.name for point in entry_points(group=GROUP) if point.name not in _OWN)
    return (*_OWN, *found)


def proposer(name: str, config: ProposerConfig) -> Proposer | Resident:
    """The proposer called `name`; UsageError naming those there are."""
    if name in _OWN:
        own: Proposer | Resident = _OWN[name](config)
        return own
    for point in entry_points(group=GROUP):
        if point.name == name:
            return cast("Proposer | Resident", point.load()(config))
    names = proposer_names()
    raise UsageError(
        f"no proposer is called {name}.{nearest(name, names)} Type proposer={' or proposer='.join(names)}."
    )
