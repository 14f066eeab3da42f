# operator: jagged_sum
# verdict: Scored
# Widens the values into workspace of its own with one kernel, and adds up with another.
import torch
import triton
import triton.language as tl


@triton.jit
def widen(values, wide, count, BLOCK: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(wide + places, tl.load(values + places, mask=places < count).to(tl.float32), mask=places < count)


@triton.jit
def add_rows(wide, offsets, out, dim, COLUMNS: tl.constexpr):
    segment = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    sums = tl.zeros((COLUMNS,), tl.float32)
    for row in range(tl.load(offsets + segment).to(tl.int64), tl.load(offsets + segment + 1).to(tl.int64)):
        sums += tl.load(wide + row * dim + columns, mask=columns < dim, other=0.0)
    tl.store(out + segment * dim + columns, sums.to(out.dtype.element_ty), mask=columns < dim)


def jagged_sum(values, offsets, out, batch, total, dim):
    wide = torch.empty((total, dim), dtype=torch.float32, device=values.device)
    widen[(triton.cdiv(total * dim, 4096),)](values, wide, total * dim, 4096)
    add_rows[lambda meta: (batch, triton.cdiv(dim, meta["COLUMNS"]))](wide, offsets, out, dim, COLUMNS=128)
