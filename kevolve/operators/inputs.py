"""Inputs: which lengths, which values and which memory layouts do workloads ask for by name?

Three tables, `LENGTHS`, `VALUES` and `LAYOUTS`, hold every regime that a workload may name. All randomness
comes from the `torch.Generator` that is handed in. Lengths follow what is published of recommendation
traffic and tritonbench's own generator (operators.md 2.3 and 3); the adversarial ones follow public faults of
jagged kernels (operators.md 6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.utils.weak import WeakTensorKeyDictionary

DTYPES = ("float32", "bfloat16")
DEVICE_DTYPES = (*DTYPES, "float16")  # of workloads in the section of a device that is not the CPU
INDEX_DTYPES = ("int32", "int64")

# ---------------------------------------------------------------------------------------------- lengths


def _all_long(batch: int, longest: int) -> int:
    return batch * longest


@dataclass(frozen=True)
class LengthRegime:
    """How long the rows of a jagged tensor are.

    `draw(batch, longest, rng)` gives int64 lengths [batch]; `bound(batch, longest)` is the most that they can
    ever sum to; `tail` is how many rows of values follow the last row's end (nobody may read them).
    """

    draw: Callable[[int, int, torch.Generator], torch.Tensor]
    bound: Callable[[int, int], int] = _all_long
    tail: int = 0


def _integers(low: int, high: int, size: int, rng: torch.Generator) -> torch.Tensor:
    """Uniform integers of [low, high], both included."""
    return torch.randint(low, max(low, high) + 1, (size,), generator=rng)


def _uniform(batch: int, longest: int, rng: torch.Generator) -> torch.Tensor:
    return _integers(0, longest, batch, rng)


def _tritonbench(sparsity: float) -> LengthRegime:
    """tritonbench's generator: its sparsity is not the share of missing cells that results (operators.md 2.3)."""

    def draw(batch: int, longest: int, rng: torch.Generator) -> torch.Tensor:
        mean, margin = int(longest * (1 - sparsity)), int(0.3 * longest)
        return _integers(max(mean - margin, min(1, longest)), min(mean + margin, longest), batch, rng)

    return LengthRegime(draw)


def _force_one(lengths: torch.Tensor, longest: int, rng: torch.Generator) -> torch.Tensor:
    """One row, anywhere, of the greatest length."""
    if len(lengths):
        lengths[torch.randint(len(lengths), (1,), generator=rng)] = longest
    return lengths


def _exponential(batch: int, longest: int, rng: torch.Generator) -> torch.Tensor:
    """Mean 0.36 of the maximum before clipping, every row at least 1, one row at the maximum."""
    lengths = torch.empty(batch).exponential_(generator=rng).mul_(0.36 * longest).long()
    return _force_one(lengths.clamp_(min(1, longest), longest), longest, rng)


def _lognormal(batch: int, longest: int, rng: torch.Generator) -> torch.Tensor:
    """Sigma 1, median a quarter of the maximum, clipped there."""
    return torch.randn(batch, generator=rng).exp_().mul_(0.25 * longest).long().clamp_(0, longest)


def _one_giant_others(batch: int, longest: int) -> int:
    """The greatest length of the other rows, so that all of them together hold about 10 % of all cells."""
    return max(1, round(2 * longest / (9 * max(1, batch - 1))))


def _one_giant(batch: int, longest: int, rng: torch.Generator) -> torch.Tensor:
    lengths = _integers(0, min(longest, _one_giant_others(batch, longest)), batch, rng)
    return _force_one(lengths, longest, rng)


def _one_giant_bound(batch: int, longest: int) -> int:
    return min(batch * longest, longest + max(0, batch - 1) * _one_giant_others(batch, longest))


def _mostly_empty(batch: int, longest: int, rng: torch.Generator) -> torch.Tensor:
    """60 % of the rows are empty, the others uniform from 1."""
    lengths = _integers(min(1, longest), longest, batch, rng)
    lengths[torch.randperm(batch, generator=rng)[: round(0.6 * batch)]] = 0
    return lengths


def _truncated(batch: int, longest: int, rng: torch.Generator) -> torch.Tensor:
    """About half of the rows are longer than the declared maximum; the first certainly is."""
    lengths = _integers(0, 2 * longest + 1, batch, rng)
    lengths[:1] = 2 * longest + 1
    return lengths


def _truncated_bound(batch: int, longest: int) -> int:
    return batch * (2 * longest + 1)


def _emptied(where: Callable[[int], slice]) -> LengthRegime:
    """Uniform from 1, but the rows of `where(batch)` are empty."""

    def draw(batch: int, longest: int, rng: torch.Generator) -> torch.Tensor:
        lengths = _integers(min(1, longest), longest, batch, rng)
        lengths[where(batch)] = 0
        return lengths

    return LengthRegime(draw)


def _every(length: int) -> LengthRegime:
    """All rows have `length`, or the maximum where `length` is negative or greater."""

    def draw(batch: int, longest: int, rng: torch.Generator) -> torch.Tensor:
        return torch.full((batch,), longest if length < 0 else min(length, longest))

    return LengthRegime(draw)


def _tiles(*around: int) -> LengthRegime:
    """Row lengths go round the multiples of usual vector and tile sizes, displaced by `around`."""

    def draw(batch: int, longest: int, rng: torch.Generator) -> torch.Tensor:
        edges = [tile + by for tile in (4, 8, 16, 32, 64, 128, 256) for by in around]
        usable = [edge for edge in edges if edge <= longest] or [longest]
        return torch.tensor([usable[i % len(usable)] for i in range(batch)], dtype=torch.int64)

    return LengthRegime(draw)


LENGTHS: dict[str, LengthRegime] = {
    "uniform": LengthRegime(_uniform),
    "uniform_tail": LengthRegime(_uniform, tail=11),
    "tritonbench_10": _tritonbench(0.10),
    "tritonbench_50": _tritonbench(0.50),
    "tritonbench_90": _tritonbench(0.90),
    "exponential": LengthRegime(_exponential),
    "lognormal": LengthRegime(_lognormal),
    "one_giant": LengthRegime(_one_giant, _one_giant_bound),
    "mostly_empty": LengthRegime(_mostly_empty),
    "full": _every(-1),
    "truncated": LengthRegime(_truncated, _truncated_bound),
    "truncated_tail": LengthRegime(_truncated, _truncated_bound, tail=11),
    "empty_first": _emptied(lambda batch: slice(0, max(1, batch // 3))),
    "empty_last": _emptied(lambda batch: slice(batch - max(1, batch // 3), batch)),
    "empty_run": _emptied(lambda batch: slice(batch // 3, batch // 3 + max(1, batch // 3))),
    "all_empty": _every(0),
    "all_empty_tail": LengthRegime(_every(0).draw, tail=11),
    "all_one": _every(1),
    "tile": _tiles(0),
    "tile_plus_minus": _tiles(-1, 1),
}

# ----------------------------------------------------------------------------------------------- values


@dataclass(frozen=True)
class Rows:
    """Which rows of values count: `spans[b]` is the half-open range of rows that row b of the batch uses."""

    spans: tuple[tuple[int, int], ...]
    total: int

    def longest_span(self) -> slice:
        """The rows of the longest span: where a regime puts its one special row. May be empty."""
        return slice(*max(self.spans, key=lambda span: span[1] - span[0], default=(0, 0)))

    def unread(self) -> torch.Tensor:
        """Bool [total]: rows that no result may depend on."""
        unread = torch.ones(self.total, dtype=torch.bool)
        for start, end in self.spans:
            unread[start:end] = False
        return unread


@dataclass(frozen=True)
class ValueRegime:
    """What the values are. `fill(values, rows, rng)` overwrites values, float32 [total, dim].

    `exact`: small integers, whose sums are exact in float32 in any order. `movable`: the content has no tie to
    its rows, so that the same values shifted to other rows are as good (what makes `refresh` cheap). `free_bits`: the
    bits of a float32 that may be any others without leaving the regime (see `mixed_copy`). `cancels`: the roundings
    of a long float32 sum cancel; where numbers are much alike, or some far greater than others, all may go one way.
    """

    fill: Callable[[torch.Tensor, Rows, torch.Generator], object]
    exact: bool = False
    movable: bool = True
    free_bits: int = 0
    cancels: bool = False


def _normal(values: torch.Tensor, rows: Rows, rng: torch.Generator) -> torch.Tensor:
    return values.normal_(generator=rng)


def _wide(values: torch.Tensor, rows: Rows, rng: torch.Generator) -> None:
    """Magnitudes over eight decades, all in one row."""
    exponents = torch.empty_like(values).uniform_(-4, 4, generator=rng)
    values.normal_(generator=rng).mul_(torch.pow(10.0, exponents))


def _patchwork(values: torch.Tensor, rows: Rows, rng: torch.Generator) -> None:
    """Each span is of another kind: small, large, far from zero, normal, or normal but for one value in 500."""
    values.normal_(generator=rng)
    kinds = torch.randint(5, (len(rows.spans),), generator=rng, device=values.device).tolist()
    for (start, end), kind in zip(rows.spans, kinds, strict=True):
        span = values[start:end]
        if kind == 0:
            span.mul_(1e-3)
        elif kind == 1:
            span.mul_(1e4)
        elif kind == 2:
            span.add_(100.0)  # further away, values of a bfloat16 are all the same
        elif kind == 3:
            span.masked_fill_(torch.empty_like(span).uniform_(generator=rng) < 0.002, 300.0)


def _lone(values: torch.Tensor, rows: Rows, rng: torch.Generator) -> None:
    """Normal but for one span somewhere, which is far from zero: who looks at a few numbers does not see it."""
    values.normal_(generator=rng)
    spans = [(start, end) for start, end in rows.spans if end > start]
    if spans:
        start, end = spans[int(torch.randint(len(spans), (), generator=rng, device=values.device))]
        values[start:end] += 100.0


def _lone_cells(*cells: float) -> ValueRegime:
    """Normal but for one cell of each, anywhere in spans: who looks at a part of every row does not see them."""

    def fill(values: torch.Tensor, rows: Rows, rng: torch.Generator) -> None:
        values.normal_(generator=rng)
        spans = [(start, end) for start, end in rows.spans if end > start]
        drawn = torch.randint(1 << 30, (3 * len(cells),), generator=rng, device=values.device).tolist()
        for cell, span, row, column in zip(cells, drawn[::3], drawn[1::3], drawn[2::3], strict=True):
            if spans and values.shape[1]:
                start, end = spans[span % len(spans)]
                values[start + row % (end - start), column % values.shape[1]] = cell

    return ValueRegime(fill, movable=False)


def _cancellation(values: torch.Tensor, rows: Rows, rng: torch.Generator) -> None:
    """Neighbouring rows cancel but for a ten-thousandth: the sum is far smaller than what is summed."""
    values.normal_(generator=rng)
    pairs = len(values) // 2 * 2
    small = values[1:pairs:2].clone()
    values.mul_(1e4)
    values[1:pairs:2] = small - values[0:pairs:2]


def _sprinkle(cell: float, share: float) -> ValueRegime:
    """Normal, with `share` of the cells set to `cell`."""

    def fill(values: torch.Tensor, rows: Rows, rng: torch.Generator) -> None:
        chosen = torch.empty_like(values).uniform_(generator=rng) < share
        values.normal_(generator=rng).masked_fill_(chosen, cell)

    return ValueRegime(fill, movable=False)


def _one_cell(cell: float) -> ValueRegime:
    """Normal, but the middle row of the longest span holds `cell` in every second column."""

    def fill(values: torch.Tensor, rows: Rows, rng: torch.Generator) -> None:
        span = rows.longest_span()
        middle = (span.start + span.stop) // 2
        values.normal_(generator=rng)
        values[middle : min(middle + 1, span.stop), ::2] = cell

    return ValueRegime(fill, movable=False)


def _all_of_one(cell: float) -> ValueRegime:
    """Normal, but the whole longest span holds `cell`."""

    def fill(values: torch.Tensor, rows: Rows, rng: torch.Generator) -> None:
        values.normal_(generator=rng)[rows.longest_span()] = cell

    return ValueRegime(fill, movable=False)


def _odd_bits(values: torch.Tensor, rows: Rows, rng: torch.Generator) -> None:
    """Normal, with 40 % of the cells -0, subnormal or (quiet) NaNs that carry a number: arithmetic changes them."""
    chosen = torch.empty_like(values).uniform_(generator=rng)
    values.normal_(generator=rng).masked_fill_(chosen < 0.4, -0.0).masked_fill_(chosen < 0.3, -3e-40)
    patterns = torch.randint(0x7FC00000, 0x80000000, values.shape, generator=rng, device=values.device).int()
    values.copy_(torch.where(chosen < 0.2, patterns.view(torch.float32).copysign(chosen - 0.1), values))


def _unread(cell: float) -> ValueRegime:
    """Normal, but rows that no result may depend on hold `cell`."""

    def fill(values: torch.Tensor, rows: Rows, rng: torch.Generator) -> None:
        values.normal_(generator=rng)[rows.unread()] = cell

    return ValueRegime(fill, movable=False)


_SIGN, _MANTISSA = 0x8000_0000, 0x007F_FFFF
_STEPS_OF_OFFSET = 0x7FF  # what differs between values of `offset`, which all have the same leading digits

VALUES: dict[str, ValueRegime] = {
    "normal": ValueRegime(_normal, free_bits=_SIGN | _MANTISSA, cancels=True),
    "uniform": ValueRegime(
        lambda values, rows, rng: values.uniform_(-1, 1, generator=rng), free_bits=_SIGN | _MANTISSA, cancels=True
    ),
    "shifted": ValueRegime(
        lambda values, rows, rng: values.normal_(mean=3, generator=rng), free_bits=_MANTISSA, cancels=True
    ),
    "wide": ValueRegime(_wide, free_bits=_SIGN | _MANTISSA),
    "integers": ValueRegime(
        lambda values, rows, rng: values.random_(-8, 9, generator=rng), exact=True, free_bits=_SIGN
    ),
    "ones": ValueRegime(lambda values, rows, rng: values.fill_(1), exact=True),
    # Far enough below zero that exp(value) is 0 in float32: a maximum that starts from 0 shows.
    "all_negative": ValueRegime(lambda values, rows, rng: values.normal_(generator=rng).abs_().mul_(-10).sub_(150)),
    "large": ValueRegime(
        lambda values, rows, rng: values.normal_(generator=rng).mul_(1e4), free_bits=_SIGN | _MANTISSA, cancels=True
    ),
    "small": ValueRegime(
        lambda values, rows, rng: values.normal_(generator=rng).mul_(1e-3), free_bits=_SIGN | _MANTISSA, cancels=True
    ),
    # The square of the mean is a hundred million times the variance. Roundings cancel only in sums of some 10,000.
    "offset": ValueRegime(
        lambda values, rows, rng: values.normal_(mean=1e4, generator=rng), free_bits=_STEPS_OF_OFFSET, cancels=True
    ),
    "patchwork": ValueRegime(_patchwork),
    "lone": ValueRegime(_lone, movable=False),
    "lone_cells": _lone_cells(200.0, -200.0, 1e4),  # exp(200) is infinite in float32
    "lone_specials": _lone_cells(torch.inf, -torch.inf, torch.nan),
    "cancellation": ValueRegime(_cancellation, movable=False, cancels=True),
    "neg_inf_cells": _sprinkle(-torch.inf, 0.1),
    "neg_inf_row": _all_of_one(-torch.inf),
    "pos_inf_cell": _one_cell(torch.inf),
    "nan_row": _one_cell(torch.nan),
    "odd_bits": ValueRegime(_odd_bits),
    "nan_unread": _unread(torch.nan),
    "inf_unread": _unread(torch.inf),
}

# ---------------------------------------------------------------------------------------------- layouts


def _strided(tensor: torch.Tensor) -> torch.Tensor:
    """Every second element of a buffer twice as wide. The gaps hold NaN, or for integers a copy."""
    wide = tensor.repeat_interleave(2, dim=-1)
    if tensor.is_floating_point():
        wide[..., 1::2] = torch.nan
    return wide[..., ::2]


def _misaligned(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor one element past the start of its allocation: no vector load may assume alignment."""
    buffer = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
    return buffer[1:].view(tensor.shape).copy_(tensor)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda tensor: tensor,
    "strided": _strided,
    "misaligned": _misaligned,
}


def shifted_copy(source: torch.Tensor, target: torch.Tensor, start: int) -> torch.Tensor:
    """Fill flat `target` with flat `source` read from element `start`, round and round. Copies only."""
    for here, there in _round_and_round(len(source), len(target), start):
        target[here] = source[there]
    return target


def mixed_copy(source: torch.Tensor, target: torch.Tensor, starts: tuple[int, int], free_bits: int) -> torch.Tensor:
    """As `shifted_copy` from `starts[0]`, but with the free bits of each element flipped as those of another one say.

    Whoever has seen `source` cannot have prepared anything for the result: there are as many results as pairs of
    starts, and what their elements add up to follows from no sums known before. `free_bits` are those of a float32.
    """
    others = _free_part(source, free_bits)
    if others is None:
        return shifted_copy(source.view(-1), target, starts[0])
    bits, result = source.view(-1).view(others.dtype), target.view(others.dtype)
    for here, there in _round_and_round(len(bits), len(result), starts[0]):
        part, flipped = result[here], bits[there]
        for inner, other in _round_and_round(len(bits), len(part), starts[1] + here.start):
            torch.bitwise_xor(flipped[inner], others[other], out=part[inner])
    return target


_FREE_PARTS = WeakTensorKeyDictionary()


def _free_part(source: torch.Tensor, free_bits: int) -> torch.Tensor | None:
    """The free bits of every element, all others 0; kept as long as `source` lives. None if no bit is free."""
    size = source.element_size()
    mask = free_bits >> 8 * (4 - size)
    if mask == 0:
        return None
    if source not in _FREE_PARTS:
        signed = mask - (1 << 8 * size) if mask >> (8 * size - 1) else mask
        _FREE_PARTS[source] = source.view(-1).view({4: torch.int32, 2: torch.int16}[size]) & signed
    found: torch.Tensor = _FREE_PARTS[source]
    return found


def _round_and_round(source: int, target: int, start: int) -> Iterator[tuple[slice, slice]]:
    """Pieces (of the target, of the source) that fill the target from `start` of the source on, round and round."""
    done, position = 0, start % source if source else 0
    while done < target:
        count = min(target - done, source - position)
        yield slice(done, done + count), slice(position, position + count)
        done, position = done + count, 0
