"""Row t of out = row t of values times its segment's matrix, for the first max_length rows of a segment; else zero.

By hand: programs of a segment follow each other, so its matrix comes from the cache; float32 as three products of TF32,
16-bit numbers in larger tiles.
"""

import triton
import triton.language as tl

ROWS = 128  # of numbers of 16 bits
COLUMNS = 128
DEPTH = 64
STAGES = 3
WARPS = 8
ROWS32 = 64  # of float32
COLUMNS32 = 128
DEPTH32 = 32
STAGES32 = 3
WARPS32 = 4


@triton.jit(do_not_specialize=["batch", "total", "max_length", "parts", "blocks"])
def multiply_segment(
    values, offsets, matrices, out, batch, total, dim, out_dim, max_length, parts, blocks,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    segment = (program // (parts * blocks)).to(tl.int64)
    part = program // blocks % parts
    columns = (program % blocks) * COLUMNS + tl.arange(0, COLUMNS)
    has_column = (columns < out_dim)[None, :]
    start = tl.load(offsets + segment).to(tl.int64)
    end = start
    last = total.to(tl.int64)  # the programs after the last segment's have the rows that belong to none
    if segment < batch:
        last = tl.load(offsets + segment + 1).to(tl.int64)
        end = tl.minimum(last, start + max_length)

    first_row = start + part * ROWS
    if first_row < end:
        rows = tl.arange(0, ROWS)
        has_row = (rows < end - first_row)[:, None]
        lefts = values + first_row * dim + rows[:, None] * dim
        rights = matrices + segment * dim * out_dim
        products = tl.zeros((ROWS, COLUMNS), tl.float32)
        for first in tl.range(0, dim, DEPTH, num_stages=STAGES):
            depth = first + tl.arange(0, DEPTH)
            left = tl.load(lefts + depth[None, :], mask=has_row & (depth < dim)[None, :], other=0.0)
            right = tl.load(
                rights + depth[:, None] * out_dim + columns[None, :],
                mask=(depth < dim)[:, None] & has_column, other=0.0,
            )  # fmt: skip
            products = tl.dot(left, right, products, input_precision="tf32x3")
        places = first_row * out_dim + rows[:, None] * out_dim + columns[None, :]
        tl.store(out + places, products.to(out.dtype.element_ty), mask=has_row & has_column)

    if part == 0:
        zeros = tl.zeros((ROWS, COLUMNS), out.dtype.element_ty)
        for first in range(end, last, ROWS):
            beyond = first + tl.arange(0, ROWS)
            mask = (beyond < last)[:, None] & has_column
            tl.store(out + beyond[:, None] * out_dim + columns[None, :], zeros, mask=mask)


def jagged_dense_bmm(values, offsets, matrices, out, batch, total, dim, out_dim, max_length):
    if values.element_size() == 4:
        parts = max(triton.cdiv(max_length, ROWS32), 1)
        blocks = triton.cdiv(out_dim, COLUMNS32)
        multiply_segment[((batch + 1) * parts * blocks,)](
            values, offsets, matrices, out, batch, total, dim, out_dim, max_length, parts, blocks,
            ROWS32, COLUMNS32, DEPTH32, STAGES32, num_warps=WARPS32,
        )  # fmt: skip
    else:
        parts = max(triton.cdiv(max_length, ROWS), 1)
        blocks = triton.cdiv(out_dim, COLUMNS)
        multiply_segment[((batch + 1) * parts * blocks,)](
            values, offsets, matrices, out, batch, total, dim, out_dim, max_length, parts, blocks,
            ROWS, COLUMNS, DEPTH, STAGES, num_warps=WARPS,
        )  # fmt: skip
