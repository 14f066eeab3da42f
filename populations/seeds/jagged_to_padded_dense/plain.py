"""out[b, t, :] = row t of segment b, zero past its end."""

import triton
import triton.language as tl

ROWS = 32
COLUMNS = 128
WARPS = 4


@triton.jit(do_not_specialize=["max_length"])
def pad_segment(values, offsets, out, dim, max_length, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    segment = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    start = tl.load(offsets + segment).to(tl.int64)
    end = tl.load(offsets + segment + 1).to(tl.int64)
    has_column = (columns < dim)[None, :]
    taken = (rows < end - start)[:, None] & has_column
    block = tl.load(values + (start + rows)[:, None] * dim + columns[None, :], mask=taken, other=0.0)
    places = (segment * max_length + rows)[:, None] * dim + columns[None, :]
    tl.store(out + places, block, mask=(rows < max_length)[:, None] & has_column)


def jagged_to_padded_dense(values, offsets, out, batch, total, dim, max_length):
    grid = (batch, triton.cdiv(max_length, ROWS), triton.cdiv(dim, COLUMNS))
    pad_segment[grid](values, offsets, out, dim, max_length, ROWS, COLUMNS, num_warps=WARPS)
