"""The grid proposer changes declared values and nothing else."""

from __future__ import annotations

import asyncio

from kevolve.program import Program
from kevolve.propose.grid import Grid
from kevolve.propose.parameters import declared, points, values_of, with_values
from kevolve.propose.proposer import Context, Credit, Kind, Proposal, Refusal, Request

SOURCE = """#include "kevolve.h"
constexpr int TILE = 16;  // one of 4 8 16 32 64
constexpr int TIMES = 1;  // one of 1 2 4
constexpr int FIXED = 7;
    constexpr int INSIDE = 3;  // one of 1 2 3
"""
SEED = Program("jagged_sum", "cpp", SOURCE)


def proposed(kind: Kind, *parents: Program, seed: int = 0, credit: dict[str, Credit] | None = None) -> Program:
    request = Request(kind, tuple(parent.id for parent in parents), seed, credit or {})
    context = Context("jagged_sum", "cpu", tuple((parent, None) for parent in parents), (SEED,))
    answer = asyncio.run(Grid().propose(request, context))
    assert isinstance(answer, Proposal)
    return answer.program


def test_only_declarations_at_the_margin_with_their_values_are_parameters() -> None:
    assert [(p.name, p.value, p.domain) for p in declared(SOURCE)] == [
        ("TILE", 16, (4, 8, 16, 32, 64)),
        ("TIMES", 1, (1, 2, 4)),
    ]
    assert len(list(points(SOURCE))) == 15
    assert with_values(SOURCE, {"TIMES": 4, "FIXED": 9}) == SOURCE.replace("TIMES = 1", "TIMES = 4")


def test_an_improved_program_differs_in_one_or_two_values_of_the_domains_and_names_them() -> None:
    for seed in range(60):
        child = proposed("improve", SEED, seed=seed)
        changed = {name for name, value in values_of(child.source).items() if values_of(SOURCE)[name] != value}
        assert child.parents == (SEED.id,)
        assert sorted(changed) == sorted(child.origin["edits"])
        assert 1 <= len(changed) <= 2
        assert with_values(child.source, values_of(SOURCE)) == SOURCE


def test_a_crossover_takes_every_value_from_one_of_its_parents() -> None:
    one, other = SEED, Program("jagged_sum", "cpp", with_values(SOURCE, {"TILE": 64, "TIMES": 4}))
    found = {tuple(values_of(proposed("crossover", one, other, seed=seed).source).values()) for seed in range(40)}
    assert {(64, 1), (16, 4)} <= found


def test_what_paid_is_moved_more_often() -> None:
    credit = {"TIMES": Credit(20, 1.0), "TILE": Credit(20, -1.0)}
    edits = [proposed("improve", SEED, seed=seed, credit=credit).origin["edits"] for seed in range(200)]
    assert sum("TIMES" in names for names in edits) > 2 * sum("TILE" in names for names in edits)


def test_the_same_request_gives_the_same_child() -> None:
    assert proposed("draft", seed=5).source == proposed("draft", seed=5).source
    assert len({proposed("draft", seed=seed).id for seed in range(40)}) > 8


def test_a_program_without_parameters_is_refused_with_how_to_declare_one() -> None:
    plain = Program("jagged_sum", "cpp", "int x;")
    answer = asyncio.run(Grid().propose(Request("draft", (), 0), Context("jagged_sum", "cpu", (), (plain,))))
    assert isinstance(answer, Refusal)
    assert "constexpr int TILE = 16;  // one of 4 8 16 32" in answer.reason
