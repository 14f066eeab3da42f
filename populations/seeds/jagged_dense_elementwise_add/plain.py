"""Row t of segment b = its value + dense[b, t, :], or the value alone where dense has no such row."""

import triton
import triton.language as tl

ROWS = 32
COLUMNS = 128
WARPS = 4


@triton.jit(do_not_specialize=["batch", "total", "max_length"])
def add_to_segment(
    values, offsets, dense, out, batch, total, dim, max_length, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    segment = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    has_column = (columns < dim)[None, :]
    start = tl.load(offsets + segment).to(tl.int64)
    end = start
    last = total.to(tl.int64)  # the program after the last segment's has the rows that belong to none
    if segment < batch:
        end = tl.load(offsets + segment + 1).to(tl.int64)
        last = end
    for first in range(start, last, ROWS):
        rows = first + tl.arange(0, ROWS)
        mask = (rows < last)[:, None] & has_column
        mine = (rows < end)[:, None] & has_column
        places = rows[:, None] * dim + columns[None, :]
        sources = (segment * max_length + rows - start)[:, None] * dim + columns[None, :]
        block = tl.load(values + places, mask=mine, other=0.0).to(tl.float32)
        added = tl.load(dense + sources, mask=mine & (rows - start < max_length)[:, None], other=0.0).to(tl.float32)
        tl.store(out + places, (block + added).to(out.dtype.element_ty), mask=mask)


def jagged_dense_elementwise_add(values, offsets, dense, out, batch, total, dim, max_length):
    grid = (batch + 1, triton.cdiv(dim, COLUMNS))
    add_to_segment[grid](values, offsets, dense, out, batch, total, dim, max_length, ROWS, COLUMNS, num_warps=WARPS)
