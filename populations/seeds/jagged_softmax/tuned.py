"""Softmax over the first max_length rows of each segment, column by column; zero in every other row.

By hand: a program has a segment and as few columns as it takes to hold all of its rows, so they are read once. Of a
segment that is longer, one pass finds the maxima and the sums, and a second one writes.
"""

import triton
import triton.language as tl

HELD = 512  # rows that a program holds
ROWS = 64  # of a block where they are too many
COLUMNS = 32
WARPS = 8
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def soften_held(values, out, count, dim, has_column, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.arange(0, ROWS)
    mask = (rows < count)[:, None] & has_column
    places = rows[:, None] * dim + tl.arange(0, COLUMNS)[None, :]
    block = tl.load(values + places, mask=mask, other=float("-inf")).to(tl.float32) * LOG2_E
    powers = tl.exp2(block - tl.max(block, axis=0)[None, :])
    shares = powers * (1.0 / tl.sum(powers, axis=0))[None, :]
    tl.store(out + places, shares.to(out.dtype.element_ty), mask=mask)


@triton.jit
def soften_in_two_passes(values, out, count, dim, has_column, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    greatest = tl.full((ROWS, COLUMNS), float("-inf"), tl.float32)
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, count, ROWS):
        rows = first.to(tl.int64) + tl.arange(0, ROWS)
        mask = (rows < count)[:, None] & has_column
        places = rows[:, None] * dim + tl.arange(0, COLUMNS)[None, :]
        block = tl.load(values + places, mask=mask, other=float("-inf")).to(tl.float32) * LOG2_E
        greater = tl.maximum(greatest, block)
        before = tl.where(greatest == greater, 1.0, tl.exp2(greatest - greater))
        now = tl.where(block == float("-inf"), 0.0, tl.exp2(block - greater))
        sums = sums * before + now
        greatest = greater
    largest = tl.max(greatest, axis=0)[None, :]
    sums = tl.where(greatest == float("-inf"), sums, sums * tl.exp2(greatest - largest))
    inverse = 1.0 / tl.sum(sums, axis=0)[None, :]
    for first in range(0, count, ROWS):
        rows = first.to(tl.int64) + tl.arange(0, ROWS)
        mask = (rows < count)[:, None] & has_column
        places = rows[:, None] * dim + tl.arange(0, COLUMNS)[None, :]
        block = tl.load(values + places, mask=mask, other=float("-inf")).to(tl.float32) * LOG2_E
        shares = tl.exp2(block - largest) * inverse
        tl.store(out + places, shares.to(out.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["batch", "total", "max_length", "blocks"])
def softmax_segment(
    values, offsets, out, batch, total, dim, max_length, blocks,
    HELD: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    segment = (program // blocks).to(tl.int64)
    column = (program % blocks) * COLUMNS
    has_column = (column + tl.arange(0, COLUMNS) < dim)[None, :]
    start = tl.load(offsets + segment).to(tl.int64)
    end = start
    last = total.to(tl.int64)  # the programs after the last segment's have the rows that belong to none
    if segment < batch:
        last = tl.load(offsets + segment + 1).to(tl.int64)
        end = tl.minimum(last, start + max_length)
    count = (end - start).to(tl.int32)
    mine = values + start * dim + column
    results = out + start * dim + column
    if count > HELD:
        soften_in_two_passes(mine, results, count, dim, has_column, ROWS, COLUMNS)
    elif count > HELD // 2:
        soften_held(mine, results, count, dim, has_column, HELD, COLUMNS)
    elif count > HELD // 4:
        soften_held(mine, results, count, dim, has_column, HELD // 2, COLUMNS)
    elif count > 0:
        soften_held(mine, results, count, dim, has_column, HELD // 4, COLUMNS)

    zeros = tl.zeros((ROWS, COLUMNS), out.dtype.element_ty)
    for first in range(end, last, ROWS):
        rows = first + tl.arange(0, ROWS)
        mask = (rows < last)[:, None] & has_column
        tl.store(out + rows[:, None] * dim + column + tl.arange(0, COLUMNS)[None, :], zeros, mask=mask)


def jagged_softmax(values, offsets, out, batch, total, dim, max_length):
    blocks = triton.cdiv(dim, COLUMNS)
    softmax_segment[((batch + 1) * blocks,)](
        values, offsets, out, batch, total, dim, max_length, blocks, HELD, ROWS, COLUMNS, num_warps=WARPS
    )
