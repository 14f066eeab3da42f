"""The grid proposer: children by changing the values of parameters that a program declares, and nothing else.

For programs that were written with numbers to tune (`propose/parameters.py`), and for searches on recorded landscapes.
A draft is a random point of the grid. An improved program has one parameter moved, mostly to a neighbouring value, and
now and then two; which, is drawn by what moving it has brought so far (`Request.credit`). A crossover takes each value
from either parent. A child is a function of its request and context alone.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from kevolve.program import Program
from kevolve.propose.choosing import choose
from kevolve.propose.parameters import Parameter, Point, declared, values_of, with_values
from kevolve.propose.proposer import Context, Credit, Proposal, Refusal, Request

TRIES = 12  # children that turn out to be their parents, before a request is refused
FAR = 0.25  # share of moves to any other value instead of a neighbour
SECOND = 0.35  # share of children in which another parameter moves, too


class Grid:
    """Proposes points of the grid that the starting programs, or a parent, declare."""

    async def propose(self, request: Request, context: Context) -> Proposal | Refusal:
        """A child of the request's parents, or a refusal that says why there is none."""
        draw = random.Random(f"{request.seed}/{request.attempt}")
        parents = [program for program, _ in context.parents] or [draw.choice(context.seeds)]
        first, parameters = parents[0], declared(parents[0].source)
        if not any(len(parameter.domain) > 1 for parameter in parameters):
            example = "constexpr int TILE = 16;  // one of 4 8 16 32"
            return Refusal(f"program {first.id} declares no parameter with several values, like `{example}`")
        known = {program.id for program in (*parents, *context.seeds)}
        for _ in range(TRIES):
            point, changed = _child(request, parents, parameters, draw)
            program = Program(
                context.operator,
                first.language,
                with_values(first.source, point),
                tuple(parent.id for parent in parents),
                {"proposer": "grid", "kind": request.kind, "edits": changed, "point": dict(point)},
            )
            if program.id not in known:
                return Proposal(program)
        return Refusal(f"{TRIES} points in a row were those of the parents")


def _child(
    request: Request, parents: list[Program], parameters: tuple[Parameter, ...], draw: random.Random
) -> tuple[Point, list[str]]:
    """A point, and the names of the parameters that differ from the first parent's; a draft's are nobody's merit."""
    own = {parameter.name: parameter.value for parameter in parameters}
    if request.kind == "draft":
        return {parameter.name: draw.choice(parameter.domain) for parameter in parameters}, []
    point = dict(own)
    if request.kind == "crossover":
        other = values_of(parents[1].source)
        point = {name: draw.choice((value, other.get(name, value))) for name, value in own.items()}
    if point == own:
        point |= _moved(parameters, request.credit, draw)
    return point, [name for name in own if point[name] != own[name]]


def _moved(parameters: tuple[Parameter, ...], credit: Mapping[str, Credit], draw: random.Random) -> Point:
    """One parameter with another value, or two."""
    movable = [parameter for parameter in parameters if len(parameter.domain) > 1]
    count = 2 if len(movable) > 1 and draw.random() < SECOND else 1
    point: dict[str, int] = {}
    for _ in range(count):
        left = {parameter.name: parameter for parameter in movable if parameter.name not in point}
        chosen = left[choose(list(left), [1.0] * len(left), draw, credit)]
        point[chosen.name] = _another(chosen, draw)
    return point


def _another(parameter: Parameter, draw: random.Random) -> int:
    """A neighbour of the value, or now and then any other."""
    domain = parameter.domain
    if parameter.value not in domain or draw.random() < FAR:
        return draw.choice([value for value in domain if value != parameter.value])
    at = domain.index(parameter.value)
    return draw.choice([domain[place] for place in (at - 1, at + 1) if 0 <= place < len(domain)])
