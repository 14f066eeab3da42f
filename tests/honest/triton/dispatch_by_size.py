# operator: jagged_sum
# verdict: Scored
# Other blocks for narrow rows than for wide ones.
import triton
import triton.language as tl


@triton.jit
def sum_segment(values, offsets, out, dim, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    segment = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    has_column = columns < dim
    start = tl.load(offsets + segment).to(tl.int64)
    end = tl.load(offsets + segment + 1).to(tl.int64)
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(start, end, ROWS):
        rows = first + tl.arange(0, ROWS)
        mask = (rows < end)[:, None] & has_column[None, :]
        sums += tl.load(values + rows[:, None] * dim + columns[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(out + segment * dim + columns, tl.sum(sums, axis=0).to(out.dtype.element_ty), mask=has_column)


def jagged_sum(values, offsets, out, batch, total, dim):
    columns = max(min(triton.next_power_of_2(dim), 256), 1)
    rows = 64 if columns <= 32 else 16
    warps = 8 if columns > 128 else 2
    sum_segment[(batch, triton.cdiv(dim, columns))](values, offsets, out, dim, rows, columns, num_warps=warps)
