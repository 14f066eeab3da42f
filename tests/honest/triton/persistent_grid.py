# operator: jagged_sum
# verdict: Scored
# As many blocks as there may be multiprocessors, each of which takes segment after segment.
import triton
import triton.language as tl

ROWS = 32
COLUMNS = 128
WARPS = 4


@triton.jit
def sum_segment(values, offsets, out, batch, dim, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    has_column = columns < dim
    for place in range(tl.program_id(0), batch, tl.num_programs(0)):
        segment = place.to(tl.int64)
        start = tl.load(offsets + segment).to(tl.int64)
        end = tl.load(offsets + segment + 1).to(tl.int64)
        sums = tl.zeros((ROWS, COLUMNS), tl.float32)
        for first in range(start, end, ROWS):
            rows = first + tl.arange(0, ROWS)
            mask = (rows < end)[:, None] & has_column[None, :]
            sums += tl.load(values + rows[:, None] * dim + columns[None, :], mask=mask, other=0.0).to(tl.float32)
        total = tl.sum(sums, axis=0)
        tl.store(out + segment * dim + columns, total.to(out.dtype.element_ty), mask=has_column)


def jagged_sum(values, offsets, out, batch, total, dim):
    grid = (min(batch, 264), triton.cdiv(dim, COLUMNS))
    sum_segment[grid](values, offsets, out, batch, dim, ROWS, COLUMNS, num_warps=WARPS)
