"""Row t of segment b = dense[b, t, :]; zero where dense has no such row."""

import triton
import triton.language as tl

ROWS = 32
COLUMNS = 128
WARPS = 4


@triton.jit(do_not_specialize=["batch", "total", "max_length"])
def unpad_segment(dense, offsets, out, batch, total, dim, max_length, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    segment = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    has_column = (columns < dim)[None, :]
    start = tl.load(offsets + segment).to(tl.int64)
    end = start
    last = total.to(tl.int64)  # the program after the last segment's has the rows that belong to none
    if segment < batch:
        last = tl.load(offsets + segment + 1).to(tl.int64)
        end = tl.minimum(last, start + max_length)
    for first in range(start, last, ROWS):
        rows = first + tl.arange(0, ROWS)
        taken = (rows < end)[:, None] & has_column
        sources = (segment * max_length + rows - start)[:, None] * dim + columns[None, :]
        block = tl.load(dense + sources, mask=taken, other=0.0)
        tl.store(out + rows[:, None] * dim + columns[None, :], block, mask=(rows < last)[:, None] & has_column)


def dense_to_jagged(dense, offsets, out, batch, total, dim, max_length):
    grid = (batch + 1, triton.cdiv(dim, COLUMNS))
    unpad_segment[grid](dense, offsets, out, batch, total, dim, max_length, ROWS, COLUMNS, num_warps=WARPS)
