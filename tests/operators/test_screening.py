"""No operator is admitted whose check lets an answer pass that took no honest work, on any of its workloads."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from operator_cases import OPERATORS, operator_named

from kevolve.operators.fakes import fakes, in_dtype
from kevolve.operators.operator import Inputs, Mismatch, Outputs, Workload
from kevolve.operators.registry import load_operator
from kevolve.operators.screening import weakness, weakness_on


@pytest.mark.parametrize("operator", OPERATORS)
def test_no_workload_lets_a_fake_or_half_precision_pass_and_every_one_takes_float32(operator: str) -> None:
    assert weakness(operator_named(operator)) == ""


def test_every_kind_of_fake_is_tried() -> None:
    operator = operator_named("jagged_dense_bmm")
    workload = next(w for w in operator.workloads if w.name == "bf16_normal")
    given = operator.make_inputs(workload, torch.Generator().manual_seed(1))
    right = in_dtype(operator, workload, operator.oracle(given))
    told = [fake.what for fake in fakes(operator, workload, given, right)]
    for kind in ("zeros", "ones", "constant", "input values", "input offsets for its", "other inputs", "another order"):
        assert any(kind in what for what in told), kind
    assert [what for what in told if "for zeros" in what] == [
        f"an answer that takes its input {name} for zeros" for name in given.tensors
    ]


@pytest.mark.parametrize(
    ("name", "forgives", "told"),
    [
        ("main", 0.5, "computed in float16 would pass its check on main"),
        ("main", 1e9, "zeros for its output out would pass"),
        ("bfloat16", 4.0, "computed in bfloat16 would pass its check on bfloat16"),
        ("all_one", 1e9, "would pass its check on all_one"),
    ],
)
def test_a_check_that_forgives_too_much_is_found_out(name: str, forgives: float, told: str) -> None:
    operator = load_operator("jagged_sum")
    workload = next(w for w in operator.workloads if w.name == name)

    def lenient(workload: Workload, outputs: Outputs, expected: Outputs, inputs: Inputs) -> Mismatch | None:
        near = (outputs["out"].double() - expected["out"]).abs() <= forgives
        return None if bool(near.all()) else Mismatch("off")

    operator.check = lenient  # type: ignore[method-assign]
    assert told in weakness_on(operator, workload)


def test_a_check_that_honest_float32_does_not_pass_is_found_out() -> None:
    operator = load_operator("jagged_softmax")
    workload = next(w for w in operator.workloads if w.name == "small")

    def strict(workload: Workload, outputs: Outputs, expected: Outputs, inputs: Inputs) -> Mismatch | None:
        return None if torch.equal(outputs["out"], expected["out"].float()) else Mismatch("off")

    operator.check = strict  # type: ignore[method-assign]
    assert "computed in float32, does not pass its check on small" in weakness_on(operator, workload)


def test_a_workload_whose_content_proves_nothing_is_found_out() -> None:
    operator = load_operator("jagged_mean")
    workload = next(w for w in operator.workloads if w.name == "full")
    assert "ones for its output out would pass its check on full" in weakness_on(
        operator, replace(workload, values="ones")
    )
