"""What a program is called with: dimensions by name, and a plain word where that is not possible."""

from __future__ import annotations

import pytest
import torch
from own_operators import operator, row_wise

from kevolve.errors import UsageError

JAGGED = """
def reference(values, offsets, rows, limit):
    out = values.new_zeros(offsets.shape[0] - 1, 2 * values.shape[1])
    return {"out": out + values.sum(), "first": offsets[:-1].clone(), "total": values.sum(0)}

def make_inputs(rng, rows, dim):
    lengths = torch.randint(0, 9, (rows,), generator=rng)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    return {"limit": 4, "offsets": offsets, "values": torch.randn(int(offsets[-1]), dim, generator=rng), "rows": rows}

workloads = [dict(rows=16, dim=16), dict(rows=16, dim=32)]
"""


def signature(text: str) -> list[str]:
    made = operator(text)
    return [f"{a.name}[{', '.join(a.shape)}]" if a.kind != "scalar" else a.name for a in made.arguments]


def test_sizes_that_are_equal_in_every_workload_are_told_apart() -> None:
    assert signature(row_wise("x.square()", 64, 64)) == ["x[rows, dim]", "out[rows, dim]", "rows", "dim"]


def test_offsets_drawn_lengths_and_integers_become_expressions_and_scalars() -> None:
    made = operator(JAGGED)
    found = {a.name: (a.kind, a.dtype, a.shape) for a in made.arguments}
    assert found["values"] == ("input", "value", ("values_0", "dim"))
    assert found["offsets"] == ("input", "int64", ("rows + 1",))
    assert found["out"] == ("output", "value", ("rows", "2 * dim"))
    assert found["first"] == ("output", "int64", ("rows",))
    assert [a.name for a in made.arguments] == [
        *("values", "offsets", "out", "first", "total"), *("rows", "dim", "limit", "values_0")
    ]  # fmt: skip
    given = made.make_inputs(made.workloads[1], torch.Generator().manual_seed(0))
    assert given.scalars == {"rows": 16, "dim": 32, "limit": 4, "values_0": len(given.values)}


def test_a_size_that_the_reference_cannot_see_is_no_argument() -> None:
    text = row_wise("x.square()").replace("make_inputs(rng, rows, dim)", "make_inputs(rng, rows, spread, dim)")
    assert signature(text.replace("dim=70", "dim=70, spread=9"))[-2:] == ["rows", "dim"]


def test_a_constant_dimension_is_a_number() -> None:
    assert signature(row_wise("torch.stack([x, -x])"))[1] == "out[2, rows, dim]"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (row_wise("x[x > 0]"), "dimension 0 of the output out follows from no dimension of an input"),
        (row_wise("x.square().to(torch.complex64)"), "complex64"),
        (row_wise("x.square().float()"), "answers out in torch.float32 when its inputs are float64"),
        (row_wise("x.square() + missing"), "NameError: name 'missing' is not defined (line 4)"),
        (row_wise('"nothing"'), "must return a tensor"),
        (row_wise("x.square()").replace('{"x"', '{"y"'), "returns 'y', which is no parameter of reference"),
        (row_wise("x.square()").replace("reference(x)", "reference(x, scale)"), "reference takes scale, but"),
        (row_wise("x.square()").replace("reference(x)", "reference(*x)"), "no star"),
        (
            row_wise("x.square()").replace("torch.randn(rows", "0.5 + 0 * len(str(rows"),
            "as float. An input is a tensor",
        ),
        (row_wise("x.square()").replace("generator=rng)}", "generator=rng).half().numpy()}"), "as ndarray"),
    ],
)
def test_what_a_program_cannot_be_called_with_is_told(text: str, told: str) -> None:
    if "len(str" in text:
        text = text.replace("len(str(rows, dim, generator=rng)", "rows")
    with pytest.raises(UsageError) as error:
        operator(text)
    assert told in str(error.value)
    assert "my_op.py" in str(error.value)


@pytest.mark.parametrize(
    ("workload", "told"),
    [
        ("dict(rows=4)", "make_inputs takes dim, a whole number of at least 0, and it is missing"),
        ("dict(rows=4, dim=2.5)", "got 2.5"),
        ("dict(rows=4, dim=3, dtpye='bfloat16')", "there is no field dtpye. Did you mean dtype?"),
        ("dict(rows=4, dim=3, dtype='float16')", "dtype is 'float16'. Did you mean bfloat16? It may be float32"),
        ("dict(rows=4, dim=3, role='test')", "It may be search or holdout or adversarial"),
        ("dict(rows=4, dim=3, weight=0)", "weight must be a number above 0"),
        ("dict(rows=4, dim=3, role='holdout')", 'no workload has role="search"'),
        ("dict(rows=4, dim=3), dict(rows=4, dim=3)", "two workloads are called 4x3"),
        ("'rows'", "expected dict(rows=128, dim=128)"),
    ],
)
def test_a_wrong_workload_is_told_with_its_place(workload: str, told: str) -> None:
    with pytest.raises(UsageError) as error:
        operator(row_wise("x.square()").replace("dict(rows=40, dim=70)", workload))
    assert told in str(error.value)


def test_adversarial_workloads_are_derived_where_the_operator_takes_them() -> None:
    text = row_wise("x.view(x.shape[0], -1, 2).sum(-1)", more="workloads += [dict(rows=50, dim=32, dtype='bfloat16')]")
    made = operator(text)
    derived = {w.name: (w.layout, dict(w.sizes)) for w in made.workloads if w.role == "adversarial"}
    assert derived["40x70_misaligned"] == ("misaligned", {"rows": 40, "dim": 70})
    assert "50x32_bfloat16_misaligned" in derived
    assert {"rows_1", "rows_51"} <= set(derived) or {"rows_1", "rows_41"} <= set(derived)
    assert not any(name.startswith("dim_") for name in derived)  # odd ones do not pair up
