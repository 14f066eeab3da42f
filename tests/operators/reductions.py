"""Ways to add up rows, and faults that several operators can have: what faulty and honest kernels are made of."""

from __future__ import annotations

from collections.abc import Callable

import torch

from kevolve.operators.operator import Inputs

Rows = Callable[[torch.Tensor], torch.Tensor]  # [n, dim] -> [dim]
Way = Callable[[Inputs], torch.Tensor]


def sequential(rows: torch.Tensor) -> torch.Tensor:
    """One addition after the other, in the dtype of `rows`."""
    total = torch.zeros_like(rows[0])
    for row in rows:
        total += row
    return total


def pairwise(rows: torch.Tensor) -> torch.Tensor:
    while len(rows) > 1:
        half = len(rows) // 2
        rows = torch.cat([rows[:half] + rows[half : 2 * half], rows[2 * half :]])
    return rows[0]


def split(rows: torch.Tensor) -> torch.Tensor:
    """Four running sums, as an unrolled loop keeps them."""
    parts = [sequential(rows[k::4]) for k in range(min(4, len(rows)))]
    return sequential(torch.stack(parts))


def fused(rows: torch.Tensor) -> torch.Tensor:
    """As if each addition were a multiply-add by one with a wider intermediate."""
    total = torch.zeros_like(rows[0])
    for row in rows:
        total = (total.double() + row.double()).float()
    return total


def rounded_to(bits: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Keeps `bits` of the significand of float32 values, as a cast to TF32 (11) or half (11, 8) would."""

    def cut(x: torch.Tensor) -> torch.Tensor:
        mantissa, exponent = torch.frexp(x)
        return torch.ldexp(torch.round(mantissa * 2**bits) / 2**bits, exponent)

    return cut


def unbounded(inputs: Inputs) -> Inputs:
    """As if the whole of each row took part."""
    return Inputs(inputs.tensors, {**inputs.scalars, "max_length": 10**9})


def last_row_reads_the_tail(inputs: Inputs) -> Inputs:
    offsets = inputs.offsets.clone()
    offsets[-1] = inputs.total
    return Inputs({**inputs.tensors, "offsets": offsets}, inputs.scalars)


def blocks_of_8(rows: torch.Tensor) -> torch.Tensor:
    whole = len(rows) // 8 * 8
    return pairwise(rows[:whole]) if whole else torch.zeros_like(rows[0])


def without_last(rows: torch.Tensor) -> torch.Tensor:
    return pairwise(rows[:-1]) if len(rows) > 1 else torch.zeros_like(rows[0])


def with_dirty_tail(way: Way) -> Way:
    """Rows past the last offset are left as they were."""

    def compute(inputs: Inputs) -> torch.Tensor:
        out = way(inputs)
        out[int(inputs.offsets[-1]) :] = 1e-30
        return out

    return compute
