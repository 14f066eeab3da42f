"""Each segment minus its mean, over its standard deviation: both over all of its rows and columns."""

import triton
import triton.language as tl

BLOCK = 4096
WARPS = 8


@triton.jit(do_not_specialize=["batch", "total"])
def normalise_segment(values, offsets, out, batch, total, dim, BLOCK: tl.constexpr):
    segment = tl.program_id(0).to(tl.int64)
    start = tl.load(offsets + segment).to(tl.int64) * dim
    end = start
    last = total.to(tl.int64) * dim  # the program after the last segment's has the rows that belong to none
    if segment < batch:
        last = tl.load(offsets + segment + 1).to(tl.int64) * dim
        end = last
    count = (end - start).to(tl.float32)

    sums = tl.zeros((BLOCK,), tl.float32)
    for first in range(start, end, BLOCK):
        places = first + tl.arange(0, BLOCK)
        sums += tl.load(values + places, mask=places < end, other=0.0).to(tl.float32)
    mean = tl.sum(sums, axis=0) / count

    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(start, end, BLOCK):
        places = first + tl.arange(0, BLOCK)
        centred = tl.load(values + places, mask=places < end, other=0.0).to(tl.float32) - mean
        squares += tl.where(places < end, centred * centred, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / count + 1e-6)

    for first in range(start, end, BLOCK):
        places = first + tl.arange(0, BLOCK)
        centred = tl.load(values + places, mask=places < end, other=0.0).to(tl.float32) - mean
        tl.store(out + places, (centred * scale).to(out.dtype.element_ty), mask=places < end)

    zeros = tl.zeros((BLOCK,), out.dtype.element_ty)
    for first in range(end, last, BLOCK):
        places = first + tl.arange(0, BLOCK)
        tl.store(out + places, zeros, mask=places < last)


def jagged_layer_norm(values, offsets, out, batch, total, dim):
    normalise_segment[(batch + 1,)](values, offsets, out, batch, total, dim, BLOCK, num_warps=WARPS)
