"""The judge on a real GPU: right programs are scored, wrong and hostile ones cost one candidate and nothing else."""

from __future__ import annotations

import pytest

from kevolve.judge.lease import Survey
from kevolve.operators.registry import operator_names
from kevolve.verdict import Rejected, Scored

SUM = "jagged_sum"


def changed(source: str, old: str, new: str) -> str:
    assert source.count(old) >= 1, old
    return source.replace(old, new)


@pytest.mark.parametrize("operator", [name for name in operator_names() if name.startswith(("jagged", "dense"))])
def test_a_plain_program_is_right_on_every_workload(bench, operator):
    judgement = bench.verdict(operator, bench.plain(operator))
    assert isinstance(judgement.verdict, Scored), judgement.verdict
    assert judgement.sandbox == bench.judge.tier.name
    assert all(m.roofline <= 1.1 for m in judgement.verdict.measurements), "the inputs were in the cache"


def test_a_survey_times_every_right_baseline_and_leaves_out_the_wrong_ones(bench):
    survey = bench.judge.survey(SUM, 3)
    assert isinstance(survey, Survey), survey
    timed = {w.name for w in bench.judge.operator(SUM).workloads if w.role != "adversarial"}
    assert set(survey.times_us) == timed
    assert all(time > 0 for row in survey.times_us.values() for time in row.values())
    assert any("wrong" in why for row in survey.dropped.values() for why in row.values()), survey.dropped


def test_a_confirmation_times_the_holdout_workloads_too(bench):
    verdict = bench.verdict(SUM, bench.plain(SUM), seed=7, confirm=True).verdict
    assert isinstance(verdict, Scored), verdict
    assert {m.role for m in verdict.measurements} == {"search", "holdout"}


STORE = "    tl.store(out + segment * dim + columns, tl.sum(sums, axis=0).to(out.dtype.element_ty), mask=has_column)\n"
STORE_ELSEWHERE = "    tl.store(values + segment * dim + columns, tl.zeros((COLUMNS,), values.dtype.element_ty))\n"
LOOP = "    for first in range(start, end, ROWS):\n"
ZEROS = "tl.zeros((ROWS, COLUMNS), tl.float32)"
HALF = "other=0.0).to(tl.float16).to(tl.float32)"
BIG = "    torch.empty((274877906944,), dtype=torch.float32, device=values.device)\n    grid ="

# what is done to the plain sum, and a part of the reason that it must be refused with
WRONG = {
    "zeros instead of sums": ("tl.sum(sums, axis=0)", "tl.sum(sums * 0, axis=0)", "wrong on"),
    "half precision values": ("other=0.0).to(tl.float32)", HALF, "wrong on"),
    "the last column is left as it was": ("mask=has_column)\n\n", "mask=columns < dim - 1)\n\n", "wrong on"),
    "one column too many is written": ("mask=has_column)\n\n", "mask=columns < dim + 1)\n\n", "w"),
    "some segments are left out": (STORE, f"    if (start + end) % 8 != 3:\n    {STORE}", "wrong on"),
    "the inputs are written": (STORE, STORE + STORE_ELSEWHERE, "fails"),
    "an address that nobody has": ("tl.load(values + rows", "tl.load(values + (1 << 44) + rows", "fails"),
    "a kernel that never ends": (
        LOOP,
        f"    while tl.load(offsets, volatile=True) == 0:\n        start += 0\n{LOOP}",
        "did",
    ),
    "more workspace than there may be": ("    grid =", BIG, "workspace"),
    "a grid that cannot be launched": ("grid = (batch,", "grid = (batch, 70000 + ", "grid"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_program_costs_one_candidate(bench, what):
    old, new, reason = WRONG[what]
    source = changed(bench.plain(SUM), old, new)
    if "torch." in source:
        source = source.replace("import triton\n", "import torch\nimport triton\n", 1)
    verdict = bench.verdict(SUM, source).verdict
    assert isinstance(verdict, Rejected), verdict
    assert reason in verdict.reason
    assert isinstance(bench.verdict(SUM, bench.plain(SUM)).verdict, Scored), "the next candidate paid for it"


def test_a_program_with_workspace_and_two_kernels_is_scored(bench):
    source = """
import torch
import triton
import triton.language as tl


@triton.jit
def widen(values, wide, count, BLOCK: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(wide + places, tl.load(values + places, mask=places < count).to(tl.float32), mask=places < count)


@triton.jit
def add_rows(wide, offsets, out, dim, COLUMNS: tl.constexpr):
    segment = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    sums = tl.zeros((COLUMNS,), tl.float32)
    for row in range(tl.load(offsets + segment).to(tl.int64), tl.load(offsets + segment + 1).to(tl.int64)):
        sums += tl.load(wide + row * dim + columns, mask=columns < dim, other=0.0)
    tl.store(out + segment * dim + columns, sums.to(out.dtype.element_ty), mask=columns < dim)


def jagged_sum(values, offsets, out, batch, total, dim):
    wide = torch.empty((total, dim), dtype=torch.float32, device=values.device)
    widen[(triton.cdiv(total * dim, 4096),)](values, wide, total * dim, 4096)
    add_rows[lambda meta: (batch, triton.cdiv(dim, meta["COLUMNS"]))](wide, offsets, out, dim, COLUMNS=128)
"""
    verdict = bench.verdict(SUM, source).verdict
    assert isinstance(verdict, Scored), verdict
