"""Row t of out = row t of values times its segment's matrix, for the first max_length rows of a segment; else zero."""

import triton
import triton.language as tl

ROWS = 32
COLUMNS = 64
DEPTH = 32
WARPS = 4


@triton.jit(do_not_specialize=["batch", "total", "max_length"])
def multiply_segment(
    values, offsets, matrices, out, batch, total, dim, out_dim, max_length,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    segment = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    columns = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    has_column = (columns < out_dim)[None, :]
    start = tl.load(offsets + segment).to(tl.int64)
    end = start
    last = total.to(tl.int64)  # the programs after the last segment's have the rows that belong to none
    if segment < batch:
        last = tl.load(offsets + segment + 1).to(tl.int64)
        end = tl.minimum(last, start + max_length)

    rows = start + part * ROWS + tl.arange(0, ROWS)
    has_row = (rows < end)[:, None]
    if start + part * ROWS < end:
        products = tl.zeros((ROWS, COLUMNS), tl.float32)
        for first in range(0, dim, DEPTH):
            depth = first + tl.arange(0, DEPTH)
            left = tl.load(
                values + rows[:, None] * dim + depth[None, :], mask=has_row & (depth < dim)[None, :], other=0.0
            )
            right = tl.load(
                matrices + (segment * dim + depth)[:, None] * out_dim + columns[None, :],
                mask=(depth < dim)[:, None] & has_column, other=0.0,
            )  # fmt: skip
            products = tl.dot(left, right, products, input_precision="ieee")
        places = rows[:, None] * out_dim + columns[None, :]
        tl.store(out + places, products.to(out.dtype.element_ty), mask=has_row & has_column)

    if part == 0:
        zeros = tl.zeros((ROWS, COLUMNS), out.dtype.element_ty)
        for first in range(end, last, ROWS):
            beyond = first + tl.arange(0, ROWS)
            mask = (beyond < last)[:, None] & has_column
            tl.store(out + beyond[:, None] * out_dim + columns[None, :], zeros, mask=mask)


def jagged_dense_bmm(values, offsets, matrices, out, batch, total, dim, out_dim, max_length):
    parts = max(triton.cdiv(max_length, ROWS), 1)
    grid = (batch + 1, parts, triton.cdiv(out_dim, COLUMNS))
    multiply_segment[grid](
        values, offsets, matrices, out, batch, total, dim, out_dim, max_length, ROWS, COLUMNS, DEPTH, num_warps=WARPS
    )
