"""Programs derived from PyTorch references: right in both dtypes and for all sizes, plain, and open to edits."""

from __future__ import annotations

import asyncio
import ctypes
import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lowered_cases as cases
import pytest
import torch
from lowered_programs import DTYPES, Case, answer, build, wrong

from kevolve.languages.cpp.edits import EDITS, Source, tag
from kevolve.languages.cpp.lowering import Unsupported, lower
from kevolve.languages.cpp.symbols import forbidden_symbols
from kevolve.operators.operator import Argument, Inputs
from kevolve.program import Program
from kevolve.propose.genetic import Genetic
from kevolve.propose.proposer import Context, Proposal, Request

MATRIX = (Argument("x", "input", "value", ("rows", "dim")),)
SIZES = (Argument("rows", "scalar", "int64"), Argument("dim", "scalar", "int64"))
EDITED = (
    cases.rms_norm,
    cases.softmax_rows,
    cases.cosine,
    cases.dense_gelu,
    cases.distances,
    cases.log_sum_exp,
    cases.masked_mean,
    cases.embedding_sum,
    cases.two_layers,
)


@pytest.fixture(scope="module")
def programs() -> dict[str, str]:
    return {case.name: case.program() for case in cases.CASES}


@pytest.fixture(scope="module")
def library(programs: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(programs, tmp_path_factory.mktemp("lowered"))


def case_of(reference: Callable[..., Any]) -> Case:
    return next(case for case in cases.CASES if case.reference is reference)


def derived(reference: Callable[..., Any], *outputs: str, sizes: tuple[int, int] = (6, 4)) -> str:
    """The program of a reference of one matrix whose outputs have the shapes `rows dim` and so on."""
    found = [Argument(f"out_{n}", "output", "value", tuple(text.split())) for n, text in enumerate(outputs)]
    example = Inputs({"x": torch.zeros(sizes)}, dict(zip(("rows", "dim"), sizes, strict=True)))
    return lower(reference, [*MATRIX, *found, *SIZES], "derived", example)


def test_every_program_agrees_with_its_reference_in_float_and_bfloat16_for_sizes_it_was_not_traced_with(
    library: ctypes.CDLL,
) -> None:
    found = [
        (case.name, kind, dict(sizes), reason)
        for case in cases.CASES
        for kind in DTYPES
        for sizes in case.sizes
        if (reason := wrong(library, case, case.name, kind, sizes))
    ]
    assert found == []


def test_programs_import_nothing_that_the_judge_forbids(library: ctypes.CDLL) -> None:
    command = ["nm", "-D", "--undefined-only", "--format=posix", library._name]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert forbidden_symbols(listing) == []


def test_a_row_wise_normalisation_is_one_loop_over_rows_and_needs_no_memory(programs: dict[str, str]) -> None:
    for name, inner in (("rms_norm", 2), ("softmax_rows", 3), ("moments", 3), ("written_out_softmax", 3)):
        lines = programs[name].splitlines()
        assert sum(line.startswith("    for (") for line in lines) == 1, programs[name]
        assert sum(line.startswith("        for (") for line in lines) == inner, programs[name]
        assert "malloc" not in programs[name]


def test_the_program_of_rms_norm_reads_as_a_student_would_write_it(programs: dict[str, str]) -> None:
    assert (
        programs["rms_norm"]
        == """\
#include "kevolve.h"

// Derived from the PyTorch reference, operation by operation.
extern "C" void rms_norm(const VALUE *x, const VALUE *weight, VALUE *out, int64_t rows, int64_t dim) {
    for (int64_t i = 0; i < rows; i++) {
        float sum = 0.0f;
        for (int64_t j = 0; j < dim; j++) {
            float value = x[i * dim + j];
            sum += value * value;
        }
        float rsqrt = 1.0f / sqrtf(sum / dim + 1e-06f);
        for (int64_t j = 0; j < dim; j++) {
            out[i * dim + j] = x[i * dim + j] * rsqrt * weight[j];
        }
    }
}
"""
    )


def test_work_that_loops_would_repeat_is_kept_and_produced_under_the_loops_it_shares(programs: dict[str, str]) -> None:
    hidden = programs["two_layers"]
    assert hidden.count("malloc") == 1
    assert sum(line.startswith("    for (") for line in hidden.splitlines()) == 1
    norms = programs["expanded_distances"]
    assert re.search(r"malloc\(sizeof\(float\) \* m\)", norms)
    assert norms.count("malloc") == 1


def test_a_softmax_over_columns_loops_over_columns_first(programs: dict[str, str]) -> None:
    assert "for (int64_t i = 0; i < dim; i++) {" in programs["softmax_columns"]
    assert "malloc" not in programs["softmax_columns"]


def test_the_genetic_proposer_edits_derived_programs_and_they_stay_right(
    programs: dict[str, str], tmp_path: Path
) -> None:
    drafts: dict[str, str] = {}
    for reference in EDITED:
        name = reference.__name__
        source = Source(tag(programs[name]))
        for needed in ("parallel", "lane_tile", "restrict", "unroll"):
            edit = EDITS[needed]
            values = {key: edit.first.get(key, domain)[0] for key, domain in edit.domains.items()}
            assert any(edit.apply(source, site, values) for site in edit.candidates(source)), (name, needed)
        start = Program(name, "cpp", programs[name])
        for seed in range(2):
            found = asyncio.run(Genetic().propose(Request("draft", (), seed), Context(name, "cpu", (), (start,))))
            assert isinstance(found, Proposal)
            assert len(found.program.origin["genome"]["edits"]) >= 4
            drafts[f"{name}__{seed}"] = found.program.source
    library = build(drafts, tmp_path)
    broken = [
        (name, kind, reason)
        for name in drafts
        for kind in DTYPES
        for case in [case_of(getattr(cases, name.split("__")[0]))]
        for sizes in case.sizes
        if (reason := wrong(library, case, name, kind, sizes))
    ]
    assert broken == []


def special(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        x.amax(1),
        x.min(1).values,
        torch.maximum(x, y),
        x.clamp(-1, 1),
        torch.relu(x) + torch.where(x > y, x, y),
        torch.softmax(x, 1),
        torch.logsumexp(x, 1),
        x.argmax(1),
    )


def test_nan_and_infinities_come_out_as_out_of_torch(tmp_path: Path) -> None:
    shapes = ("rows", "rows", "rows dim", "rows dim", "rows dim", "rows dim", "rows")
    outputs = [*(f"o{n}: {shape}" for n, shape in enumerate(shapes)), "o7 int64 rows"]
    case = Case(special, ["x: rows dim", "y: rows dim"], outputs, [{"rows": 6, "dim": 5}])
    library = build({"special": case.program()}, tmp_path)
    nan, inf = math.nan, math.inf
    x = torch.tensor(
        [[1, nan, 3, 2, 0], [nan] * 5, [inf, 1, 2, inf, 0], [-inf] * 5, [1, 2, inf, nan, nan], [0, -inf, 1, 0, 0.5]]
    )
    y = torch.tensor([[nan, 1.0, -inf, inf, 0.0]]).repeat(6, 1)
    got = answer(library, case, "special", "float", Inputs({"x": x, "y": y}, {"rows": 6, "dim": 5}))
    for number, (one, other) in enumerate(zip(got, special(x, y), strict=True)):
        assert torch.allclose(one.double(), other.double(), atol=1e-6, equal_nan=True), (number, one, other)


def test_index_and_fixed_dtypes_appear_in_the_signature() -> None:
    arguments = [
        Argument("table", "input", "value", ("total", "dim")),
        Argument("offsets", "input", "index", ("batch + 1",)),
        Argument("rows", "input", "int32", ("batch",)),
        Argument("out", "output", "value", ("batch", "dim")),
        *(Argument(name, "scalar", "int64") for name in ("batch", "total", "dim")),
    ]
    tensors = {
        "table": torch.zeros(9, 4),
        "offsets": torch.zeros(4, dtype=torch.int64),
        "rows": torch.zeros(3, dtype=torch.int32),
    }
    text = lower(
        lambda table, offsets, rows: table[rows] * offsets.diff()[:, None],
        arguments,
        "entry",
        Inputs(tensors, {"batch": 3, "total": 9, "dim": 4}),
    )
    assert "const VALUE *table, const INDEX *offsets, const int32_t *rows, VALUE *out" in text
    assert "offsets[i + 1]" in text


REFUSED: tuple[tuple[Callable[..., Any], str], ...] = (
    (lambda x: torch.stack([x[b] * 2 for b in range(x.shape[0])]), "rows = 6 alone"),
    (lambda x: x * x.sum().item(), "item"),
    (lambda x: x[x > 0], "content of a tensor"),
    (lambda x: x + torch.rand_like(x), "rand_like.default draws random numbers"),
    (lambda x: torch.sort(x, -1).values, "sort.default has no lowering"),
    (lambda x: x * 2 if x.shape[0] < 100 else x, "unless rows < 100"),
    (lambda x: x * 2 if x.sum() > 0 else x, "content of a tensor"),
    (lambda x, other: x + other, "takes other"),
    (lambda x: (x, x), "returns 2 tensors"),
    (lambda x: x.sum(0), r"out_0 is declared as \[rows, dim\] and traced as \[dim\]"),
    (lambda x: x.to(torch.complex64).abs(), "complex"),
    (lambda x: x + torch.arange(24.0).view(6, 4), "alone"),
)


@pytest.mark.parametrize(("reference", "reason"), REFUSED)
def test_a_reference_without_a_program_is_refused_in_one_sentence_that_says_why(
    reference: Callable[..., Any], reason: str
) -> None:
    with pytest.raises(Unsupported, match=reason) as caught:
        derived(reference, "rows dim")
    assert "\n" not in caught.value.reason
    assert len(caught.value.reason) < 400


def test_an_example_with_sizes_of_one_still_gives_a_general_program() -> None:
    text = derived(lambda x: x / x.sum(-1, keepdim=True), "rows dim", sizes=(1, 1))
    assert text.replace("derived", "same") == derived(
        lambda x: x / x.sum(-1, keepdim=True), "rows dim", sizes=(7, 9)
    ).replace("derived", "same")


def test_names_of_arguments_never_clash_with_variables_of_the_program() -> None:
    arguments = [
        Argument("sum", "input", "value", ("i", "value")),
        Argument("mean", "output", "value", ("i", "value")),
        *(Argument(name, "scalar", "int64") for name in ("i", "value")),
    ]
    example = Inputs({"sum": torch.zeros(3, 5)}, {"i": 3, "value": 5})
    text = lower(lambda sum: sum - sum.mean(-1, keepdim=True), arguments, "entry", example)
    declared = re.findall(r"(?:float|int64_t) (\w+) =", text)
    assert not {"sum", "mean", "i", "value"} & set(declared)


@pytest.mark.parametrize(("width", "half"), [("2 * half", "half"), ("dim", "dim // 2")])
def test_a_dimension_may_be_a_product_or_an_even_part(width: str, half: str) -> None:
    sizes = {"rows": 6, "half": 4, "dim": 8}
    arguments = (
        Argument("x", "input", "value", ("rows", width)),
        Argument("out", "output", "value", ("rows", half)),
        Argument("rows", "scalar", "int64"),
        Argument(half.split()[0], "scalar", "int64"),
    )
    scalars = {argument.name: sizes[argument.name] for argument in arguments if argument.kind == "scalar"}

    def gated(x: torch.Tensor) -> torch.Tensor:
        gate, value = x.view(x.shape[0], 2, -1).unbind(1)
        return torch.sigmoid(gate) * value

    text = lower(gated, arguments, "gated", Inputs({"x": torch.zeros(6, 8)}, scalars))
    assert "expf" in text
