"""A session's means: Ray, the devices under lease, the proposer. Whatever cannot be had is said in one sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kevolve.errors import FaultsStopped, UsageError
from kevolve.search.proposing import in_one_line
from kevolve.secrets import hidden

if TYPE_CHECKING:
    from kevolve.config import Config
    from kevolve.judge.lease import Lease
    from kevolve.propose.proposer import Proposer, Resident
    from kevolve.search.workers import Workers

ADVICE = "`kevolve doctor` looks for the reason and says what to type. Then type the command again."


@contextlib.contextmanager
def running(workers: Workers, config: Config) -> Iterator[None]:
    """Ray is up inside. FaultsStopped if it does not start, which Ray tells by a bare Exception."""
    with contextlib.ExitStack() as session:
        try:
            with hidden():  # what Ray starts has the environment of this moment
                session.enter_context(workers.up(config.cluster))
        except (UsageError, OSError):
            raise
        except Exception as error:
            raise FaultsStopped(f"Ray does not start on this machine ({in_one_line(error)}).\n  {ADVICE}") from error
        yield


def leases_of(config: Config) -> Sequence[Lease]:
    """The devices that the configuration asks for. FaultsStopped if the process that is to own one dies of it."""
    if config.judge.landscape is not None:
        from kevolve.judge.landscape import LandscapeLease

        return [LandscapeLease(config.judge.landscape, config.operators)]
    from ray.exceptions import RayError

    from kevolve.judge.ray_lease import open_leases

    try:
        return open_leases(config)
    except RayError as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]  # Ray puts it below its traceback
        raise FaultsStopped(f"the device could not be taken ({reason}).\n  {ADVICE}") from error


def proposer_of(config: Config) -> Proposer | Resident:
    """The proposer that the configuration names."""
    from kevolve.propose.registry import proposer

    return proposer(config.proposer.name, config.proposer)
