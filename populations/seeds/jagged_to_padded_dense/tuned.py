"""out[b, t, :] = row t of segment b, zero past its end.

By hand: a segment is one stretch of numbers and so is its place in out, so that blocks need no rows and columns.
"""

import triton
import triton.language as tl

BLOCK = 4096
WARPS = 4


@triton.jit(do_not_specialize=["blocks"])
def pad_segment(values, offsets, out, dim, size, blocks, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    segment = (program // blocks).to(tl.int64)
    first = (program % blocks).to(tl.int64) * BLOCK
    start = tl.load(offsets + segment).to(tl.int64)
    count = (tl.load(offsets + segment + 1).to(tl.int64) - start) * dim
    sources = values + start * dim + first
    results = out + segment * size + first
    places = tl.arange(0, BLOCK)
    if first + BLOCK <= tl.minimum(count, size):
        tl.store(results + places, tl.load(sources + places))
    else:
        block = tl.load(sources + places, mask=first + places < count, other=0.0)
        tl.store(results + places, block, mask=first + places < size)


def jagged_to_padded_dense(values, offsets, out, batch, total, dim, max_length):
    blocks = triton.cdiv(max_length * dim, BLOCK)
    pad_segment[(batch * blocks,)](values, offsets, out, dim, max_length * dim, blocks, BLOCK, num_warps=WARPS)
