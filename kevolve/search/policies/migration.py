"""Migration: islands send their best programs round a ring. Nothing else crosses between islands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kevolve.search.policies.policy import Arrival, Member


@dataclass(frozen=True)
class Move:
    """`arrival` goes from island `source` to island `target`; it stays at home, too."""

    source: int
    target: int
    arrival: Arrival


def ring(islands: Sequence[Sequence[Member]], migrants: int, capacity: int) -> list[Move]:
    """Who moves: each island's best `migrants` to the next, for its worst where it is full (`capacity` members).

    Islands without members are passed over. A program that lives on the next island already does not move.
    """
    from deap import tools

    from kevolve.search.policies.individual import Individual

    inhabited = [number for number, members in enumerate(islands) if members]
    count = min([migrants, *(len(islands[number]) for number in inhabited)])
    if len(inhabited) < 2 or count < 1:
        return []
    before = [[Individual.of(member) for member in islands[number]] for number in inhabited]
    after = [list(individuals) for individuals in before]
    tools.migRing(after, count, selection=tools.selBest, replacement=tools.selWorst)
    moves = []
    for place, (old, new) in enumerate(zip(before, after, strict=True)):
        for previous, individual in zip(old, new, strict=True):
            if individual not in old:
                replaced = previous.program if len(old) >= capacity else None
                arrival = Arrival(individual.member, replaced)
                moves.append(Move(inhabited[place - 1], inhabited[place], arrival))
    return moves
