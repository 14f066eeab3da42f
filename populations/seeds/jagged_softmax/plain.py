"""Softmax over the first max_length rows of each segment, column by column; zero in every other row."""

import triton
import triton.language as tl

ROWS = 32
COLUMNS = 128
WARPS = 4


@triton.jit(do_not_specialize=["batch", "total", "max_length"])
def softmax_segment(
    values, offsets, out, batch, total, dim, max_length, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    segment = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    has_column = columns < dim
    start = tl.load(offsets + segment).to(tl.int64)
    end = start
    last = total.to(tl.int64)  # the program after the last segment's has the rows that belong to none
    if segment < batch:
        last = tl.load(offsets + segment + 1).to(tl.int64)
        end = tl.minimum(last, start + max_length)

    greatest = tl.full((ROWS, COLUMNS), float("-inf"), tl.float32)
    for first in range(start, end, ROWS):
        rows = first + tl.arange(0, ROWS)
        mask = (rows < end)[:, None] & has_column[None, :]
        block = tl.load(values + rows[:, None] * dim + columns[None, :], mask=mask, other=float("-inf"))
        greatest = tl.maximum(greatest, block.to(tl.float32))
    largest = tl.max(greatest, axis=0)

    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(start, end, ROWS):
        rows = first + tl.arange(0, ROWS)
        mask = (rows < end)[:, None] & has_column[None, :]
        block = tl.load(values + rows[:, None] * dim + columns[None, :], mask=mask, other=float("-inf"))
        sums += tl.exp(block.to(tl.float32) - largest[None, :])
    sum = tl.sum(sums, axis=0)

    for first in range(start, end, ROWS):
        rows = first + tl.arange(0, ROWS)
        mask = (rows < end)[:, None] & has_column[None, :]
        places = rows[:, None] * dim + columns[None, :]
        block = tl.load(values + places, mask=mask, other=0.0).to(tl.float32)
        result = tl.exp(block - largest[None, :]) / sum[None, :]
        tl.store(out + places, result.to(out.dtype.element_ty), mask=mask)

    zeros = tl.zeros((ROWS, COLUMNS), out.dtype.element_ty)
    for first in range(end, last, ROWS):
        rows = first + tl.arange(0, ROWS)
        mask = (rows < last)[:, None] & has_column[None, :]
        tl.store(out + rows[:, None] * dim + columns[None, :], zeros, mask=mask)


def jagged_softmax(values, offsets, out, batch, total, dim, max_length):
    grid = (batch + 1, triton.cdiv(dim, COLUMNS))
    softmax_segment[grid](values, offsets, out, batch, total, dim, max_length, ROWS, COLUMNS, num_warps=WARPS)
