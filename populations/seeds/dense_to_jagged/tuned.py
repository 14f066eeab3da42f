"""Row t of segment b = dense[b, t, :]; zero where dense has no such row.

By hand: a segment is one stretch of numbers and so is its place in dense; several programs share it out.
"""

import triton
import triton.language as tl

BLOCK = 4096
WARPS = 4


@triton.jit(do_not_specialize=["batch", "total", "parts"])
def unpad_segment(dense, offsets, out, batch, total, dim, size, parts, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    segment = (program // parts).to(tl.int64)
    part = program % parts
    start = tl.load(offsets + segment).to(tl.int64) * dim
    taken = start
    last = total.to(tl.int64) * dim  # the programs after the last segment's have the rows that belong to none
    if segment < batch:
        last = tl.load(offsets + segment + 1).to(tl.int64) * dim
        taken = tl.minimum(last, start + size)
    sources = dense + segment * size
    for first in range(part.to(tl.int64) * BLOCK, last - start, parts * BLOCK):
        places = tl.arange(0, BLOCK)
        results = out + start + first
        if first + BLOCK <= taken - start:
            tl.store(results + places, tl.load(sources + first + places))
        else:
            block = tl.load(sources + first + places, mask=first + places < taken - start, other=0.0)
            tl.store(results + places, block, mask=first + places < last - start)


def dense_to_jagged(dense, offsets, out, batch, total, dim, max_length):
    parts = max(triton.cdiv(max_length * dim, BLOCK), 1)
    unpad_segment[((batch + 1) * parts,)](
        dense, offsets, out, batch, total, dim, max_length * dim, parts, BLOCK, num_warps=WARPS
    )
