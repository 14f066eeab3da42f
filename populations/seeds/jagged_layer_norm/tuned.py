"""Each segment minus its mean, over its standard deviation: both over all of its rows and columns.

By hand: the beginning of a segment is held, the rest is read twice, the second time backwards and from the cache. The
mean of the beginning is a shift with which one pass finds both sums.
"""

import triton
import triton.language as tl

HELD = 8192
BLOCK = 4096
STAGES = 3
WARPS = 16


@triton.jit(do_not_specialize=["batch", "total"])
def normalise_segment(
    values, offsets, out, batch, total, dim, HELD: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr
):  # fmt: skip
    segment = tl.program_id(0).to(tl.int64)
    start = tl.load(offsets + segment).to(tl.int64) * dim
    end = start
    last = total.to(tl.int64) * dim  # the program after the last segment's has the rows that belong to none
    if segment < batch:
        last = tl.load(offsets + segment + 1).to(tl.int64) * dim
        end = last

    if start < end:
        count = (end - start).to(tl.float32)
        held_places = start + tl.arange(0, HELD)
        is_held = held_places < end
        held = tl.load(values + held_places, mask=is_held, other=0.0, eviction_policy="evict_first").to(tl.float32)
        shift = tl.sum(held, axis=0) / tl.minimum(count, HELD)
        held = tl.where(is_held, held - shift, 0.0)

        rest = start + HELD
        sums = tl.zeros((BLOCK,), tl.float32)
        squares = tl.zeros((BLOCK,), tl.float32)
        for first in tl.range(rest, end, BLOCK, num_stages=STAGES):
            places = first + tl.arange(0, BLOCK)
            block = tl.load(values + places, mask=places < end, other=0.0, eviction_policy="evict_last")
            centred = tl.where(places < end, block.to(tl.float32) - shift, 0.0)
            sums += centred
            squares += centred * centred
        mean = (tl.sum(held, axis=0) + tl.sum(sums, axis=0)) / count
        variance = (tl.sum(held * held, axis=0) + tl.sum(squares, axis=0)) / count - mean * mean
        scale = 1.0 / tl.sqrt(tl.maximum(variance, 0.0) + 1e-6)
        scale = tl.where(variance == variance, scale, variance)

        blocks = (end - rest + BLOCK - 1) // BLOCK
        for number in tl.range(0, blocks, num_stages=STAGES):
            places = rest + (blocks - 1 - number) * BLOCK + tl.arange(0, BLOCK)
            block = tl.load(values + places, mask=places < end, other=0.0, eviction_policy="evict_first")
            result = (block.to(tl.float32) - shift - mean) * scale
            tl.store(out + places, result.to(out.dtype.element_ty), mask=places < end, eviction_policy="evict_first")
        result = ((held - mean) * scale).to(out.dtype.element_ty)
        tl.store(out + held_places, result, mask=is_held, eviction_policy="evict_first")

    zeros = tl.zeros((BLOCK,), out.dtype.element_ty)
    for first in range(end, last, BLOCK):
        places = first + tl.arange(0, BLOCK)
        tl.store(out + places, zeros, mask=places < last)


def jagged_layer_norm(values, offsets, out, batch, total, dim):
    normalise_segment[(batch + 1,)](
        values, offsets, out, batch, total, dim, HELD, BLOCK, STAGES, num_warps=WARPS
    )  # fmt: skip
