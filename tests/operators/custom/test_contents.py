"""A user's operator is tried on more than its make_inputs draws, wherever its reference is sound for it."""

from __future__ import annotations

import random

import torch
from own_operators import operator, row_wise

from kevolve.operators.custom.contents import CONTENTS
from kevolve.operators.custom.operator import CustomOperator

CLAMPED = row_wise("torch.clamp(x, -8, 8) + torch.where(x.abs() > 8, x, 0)")


def contents(made: CustomOperator) -> set[str]:
    return {w.values for w in made.workloads if w.role == "adversarial"} & set(CONTENTS)


def test_a_program_that_is_right_only_for_numbers_like_the_drawn_ones_is_found_at_every_size() -> None:
    made = operator(CLAMPED)
    timed = made.workloads[0]
    rng = torch.Generator().manual_seed(3)

    def passes(workload: object) -> bool:
        given = made.make_inputs(workload, rng)  # type: ignore[arg-type]
        return made.check(workload, {"out": given.tensors["x"].clone()}, made.oracle(given), given) is None  # type: ignore[arg-type]

    assert passes(timed)
    assert not passes(next(w for w in made.workloads if w.values == "scaled_up"))
    odd = {w.values: w for w in made.odd(timed, random.Random(1))}
    assert odd.keys() == CONTENTS.keys()
    assert odd["scaled_up"].sizes == timed.sizes
    assert not passes(odd["scaled_up"])
    assert not passes(odd["patchwork"])


def test_what_the_reference_is_not_meant_for_is_not_asked_of_a_program() -> None:
    assert contents(operator(row_wise("torch.log(x.abs() + 1e-9)"))) == set(CONTENTS)
    assert contents(operator(row_wise("torch.sqrt(x)").replace("torch.randn", "torch.rand"))) == {
        "scaled_up", "scaled_down", "zeros",
    }  # fmt: skip
    assert "scaled_up" not in contents(operator(row_wise("torch.exp(x)")))
    strict = "(_ for _ in ()).throw(ValueError('numbers above 100')) if bool((x > 100).any()) else x.square()"
    assert "scaled_up" not in contents(operator(row_wise(strict)))


def test_where_answers_are_indices_no_ties_are_made() -> None:
    assert contents(operator(row_wise("x.argmax(-1)"))) == {"scaled_up", "scaled_down", "negated"}
