"""Repairing: a program that does not build or is wrong goes back to a proposer that can make use of the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kevolve.propose.proposer import Request
from kevolve.search.judging import seed_of

if TYPE_CHECKING:
    from kevolve.search.lineage import Lineage
    from kevolve.search.policies.policy import Search


def to_repair(
    lineage: Lineage, wanting: Sequence[Search], most: int, run_seed: int
) -> tuple[Search, int, Request, int] | None:
    """The oldest rejected program of a search in `wanting` that `most` repairs in a row have not been spent on yet.

    As the search, the island that lost it, the request, and how often that island has asked: no island is asked here.
    """
    for search in wanting:
        state = lineage.state(search)
        for lost in state.repairable:
            if lost.repairs < most:
                seed = seed_of(run_seed, search.operator, search.device, lost.program, "repair")
                request = Request("repair", (lost.program,), seed, repairs=lost.repairs + 1)
                return search, lost.island, request, state.asks[lost.island]
    return None
