"""out[b, d] = sum of values[t, d] over the rows t of segment b.

By hand: blocks as wide as the rows, whole blocks without masks, and where segments are few and long several programs
for each, whose sums a second kernel adds up.
"""

import torch
import triton
import triton.language as tl

ROWS = 32
COLUMNS = 128
STAGES = 3
WARPS = 4
LONG = 640  # rows of a segment on average from which they are shared out
PROGRAMS = 1024  # that are wanted then


@triton.jit(do_not_specialize=["blocks", "parts"])
def sum_part(
    values, offsets, out, dim, blocks, parts, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr
):  # fmt: skip
    program = tl.program_id(0)
    segment = (program // blocks).to(tl.int64)
    part = tl.program_id(1)
    columns = (program % blocks) * COLUMNS + tl.arange(0, COLUMNS)
    has_column = columns < dim
    start = tl.load(offsets + segment).to(tl.int64)
    end = tl.load(offsets + segment + 1).to(tl.int64)
    whole = start + (end - start) // ROWS * ROWS
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in tl.range(start + part * ROWS, whole, parts * ROWS, num_stages=STAGES):
        rows = first + tl.arange(0, ROWS)
        block = tl.load(values + rows[:, None] * dim + columns[None, :], mask=has_column[None, :], other=0.0)
        sums += block.to(tl.float32)
    if part == 0 and whole < end:
        rows = whole + tl.arange(0, ROWS)
        mask = (rows < end)[:, None] & has_column[None, :]
        sums += tl.load(values + rows[:, None] * dim + columns[None, :], mask=mask, other=0.0).to(tl.float32)
    places = (segment * parts + part) * dim + columns
    tl.store(out + places, tl.sum(sums, axis=0).to(out.dtype.element_ty), mask=has_column)


@triton.jit(do_not_specialize=["parts"])
def sum_parts(partial, out, dim, parts, COLUMNS: tl.constexpr):
    segment = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    has_column = columns < dim
    sums = tl.zeros((COLUMNS,), tl.float32)
    for part in range(parts):
        sums += tl.load(partial + (segment * parts + part) * dim + columns, mask=has_column, other=0.0)
    tl.store(out + segment * dim + columns, sums.to(out.dtype.element_ty), mask=has_column)


def jagged_sum(values, offsets, out, batch, total, dim):
    columns = min(max(triton.next_power_of_2(dim), 16), COLUMNS)
    rows = ROWS * COLUMNS // columns
    blocks = triton.cdiv(dim, columns)
    grid = (batch * blocks, 1)
    if total <= LONG * batch or batch * blocks >= PROGRAMS:
        sum_part[grid](values, offsets, out, dim, blocks, 1, rows, columns, STAGES, num_warps=WARPS)
    else:
        parts = triton.cdiv(PROGRAMS, max(batch * blocks, 1))
        partial = torch.empty((batch, parts, dim), dtype=torch.float32, device=values.device)
        grid = (batch * blocks, parts)
        sum_part[grid](values, offsets, partial, dim, blocks, parts, rows, columns, STAGES, num_warps=WARPS)
        sum_parts[(batch, blocks)](partial, out, dim, parts, columns, num_warps=1)
