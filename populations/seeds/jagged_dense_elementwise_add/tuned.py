"""Row t of segment b = its value + dense[b, t, :], or the value alone where dense has no such row.

By hand: a segment is one stretch of numbers and so is its place in dense; several programs share it out.
"""

import triton
import triton.language as tl

BLOCK = 4096
WARPS = 4


@triton.jit(do_not_specialize=["batch", "total", "parts"])
def add_to_segment(values, offsets, dense, out, batch, total, dim, size, parts, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    segment = (program // parts).to(tl.int64)
    part = program % parts
    start = tl.load(offsets + segment).to(tl.int64) * dim
    mine = start - start
    count = total.to(tl.int64) * dim - start  # the programs after the last segment's have the rows that belong to none
    if segment < batch:
        mine = tl.load(offsets + segment + 1).to(tl.int64) * dim - start
        count = mine
    both = tl.minimum(mine, size)
    for first in range(part.to(tl.int64) * BLOCK, count, parts * BLOCK):
        places = tl.arange(0, BLOCK)
        ours = start + first
        theirs = segment * size + first
        if first + BLOCK <= both:
            block = tl.load(values + ours + places).to(tl.float32)
            added = tl.load(dense + theirs + places).to(tl.float32)
            tl.store(out + ours + places, (block + added).to(out.dtype.element_ty))
        else:
            block = tl.load(values + ours + places, mask=first + places < mine, other=0.0).to(tl.float32)
            added = tl.load(dense + theirs + places, mask=first + places < both, other=0.0).to(tl.float32)
            result = (block + added).to(out.dtype.element_ty)
            tl.store(out + ours + places, result, mask=first + places < count)


def jagged_dense_elementwise_add(values, offsets, dense, out, batch, total, dim, max_length):
    parts = max(triton.cdiv(max_length * dim, BLOCK), 1)
    add_to_segment[((batch + 1) * parts,)](
        values, offsets, dense, out, batch, total, dim, max_length * dim, parts, BLOCK, num_warps=WARPS
    )
