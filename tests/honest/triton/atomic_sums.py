# operator: jagged_sum
# verdict: Scored
# Several blocks add to the same sums in zeroed workspace, in whatever order; a last kernel rounds them.
import torch
import triton
import triton.language as tl

PARTS = 4


@triton.jit
def add_part(values, offsets, sums, dim, PARTS: tl.constexpr, COLUMNS: tl.constexpr):
    segment = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    start = tl.load(offsets + segment).to(tl.int64)
    end = tl.load(offsets + segment + 1).to(tl.int64)
    part = tl.zeros((COLUMNS,), tl.float32)
    for row in range(start + tl.program_id(2), end, PARTS):
        part += tl.load(values + row * dim + columns, mask=columns < dim, other=0.0).to(tl.float32)
    tl.atomic_add(sums + segment * dim + columns, part, mask=columns < dim)


@triton.jit
def rounded(sums, out, count, BLOCK: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + places, tl.load(sums + places, mask=places < count).to(out.dtype.element_ty), mask=places < count)


def jagged_sum(values, offsets, out, batch, total, dim):
    sums = torch.zeros((batch, dim), dtype=torch.float32, device=values.device)
    add_part[(batch, triton.cdiv(dim, 128), PARTS)](values, offsets, sums, dim, PARTS, 128)
    rounded[(triton.cdiv(batch * dim, 1024),)](sums, out, batch * dim, 1024)
