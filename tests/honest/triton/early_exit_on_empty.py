# operator: jagged_sum
# verdict: Scored
# Empty segments are answered without a loop.
import triton
import triton.language as tl

ROWS = 32
COLUMNS = 128
WARPS = 4


@triton.jit
def sum_segment(values, offsets, out, dim, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    segment = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    has_column = columns < dim
    start = tl.load(offsets + segment).to(tl.int64)
    end = tl.load(offsets + segment + 1).to(tl.int64)
    if start == end:
        tl.store(out + segment * dim + columns, tl.zeros((COLUMNS,), out.dtype.element_ty), mask=has_column)
        return
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(start, end, ROWS):
        rows = first + tl.arange(0, ROWS)
        mask = (rows < end)[:, None] & has_column[None, :]
        sums += tl.load(values + rows[:, None] * dim + columns[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(out + segment * dim + columns, tl.sum(sums, axis=0).to(out.dtype.element_ty), mask=has_column)


def jagged_sum(values, offsets, out, batch, total, dim):
    grid = (batch, triton.cdiv(dim, COLUMNS))
    sum_segment[grid](values, offsets, out, dim, ROWS, COLUMNS, num_warps=WARPS)
