"""What the jagged operators share: values [total, dim] whose rows `offsets` groups into a batch.

offsets is [batch + 1], starts at 0, never decreases and ends at or before `total`; rows of values past its end
belong to nobody. Row b of the batch is `values[offsets[b]:offsets[b + 1]]`, called its span.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import ClassVar

import torch

from kevolve.operators.inputs import LAYOUTS, LENGTHS, VALUES, Rows, shifted_copy
from kevolve.operators.operator import Inputs, Operator, Workload


class JaggedOperator(Operator):
    """Makes the inputs of a jagged operator. `max_length` of a workload bounds its lengths.

    An operator that has `max_length` among its arguments uses only that many rows of each span.
    """

    sizes: ClassVar[tuple[str, ...]] = ("batch", "max_length", "dim")

    def make_inputs(self, workload: Workload, rng: torch.Generator, device: str = "cpu") -> Inputs:
        """values [total, dim] and offsets [batch + 1], drawn on the CPU and moved to `device`."""
        offsets = _draw_offsets(workload, rng)
        scalars = self._scalars(workload, offsets)
        values = torch.empty(scalars["total"], scalars["dim"])
        rows = Rows(tuple(_spans(offsets, scalars.get("max_length"))), scalars["total"])
        VALUES[workload.values].fill(values, rows, rng)
        return _placed(values, offsets, scalars, workload, device)

    def refresh(
        self, inputs: Inputs, workload: Workload, rng: torch.Generator, into: Mapping[str, torch.Tensor] | None = None
    ) -> Inputs:
        """New lengths; values read from a random element of `inputs.values` on, round and round."""
        drawn = inputs.values.reshape(-1)
        if not VALUES[workload.values].movable or len(drawn) == 0:
            return super().refresh(inputs, workload, rng, into)
        offsets = _draw_offsets(workload, rng)
        scalars = self._scalars(workload, offsets)
        count = scalars["total"] * scalars["dim"]
        flat = drawn.new_empty(count) if into is None else into["values"][:count]
        shifted_copy(drawn, flat, int(torch.randint(len(drawn), (1,), generator=rng)))
        values = flat.view(scalars["total"], scalars["dim"])
        if into is None:
            return _placed(values, offsets, scalars, workload, str(drawn.device))
        return Inputs({"values": values, "offsets": into["offsets"][: len(offsets)].copy_(offsets)}, scalars)

    def capacity(self, workload: Workload) -> dict[str, int]:
        """Elements by argument name, with `total` at the most that the lengths can sum to."""
        sizes, lengths = workload.sizes, LENGTHS[workload.lengths]
        most = {**sizes, "total": lengths.bound(sizes["batch"], sizes["max_length"]) + lengths.tail}
        return {name: math.prod(shape) for name, shape in self.shapes(most).items()}

    def _scalars(self, workload: Workload, offsets: torch.Tensor) -> dict[str, int]:
        known = {**workload.sizes, "total": int(offsets[-1]) + LENGTHS[workload.lengths].tail}
        return {argument.name: known[argument.name] for argument in self.arguments if argument.kind == "scalar"}


def spans(inputs: Inputs) -> list[tuple[int, int]]:
    """The rows of values that each row of the batch uses: at most `max_length` if the operator has that argument."""
    return _spans(inputs.offsets, inputs.scalars.get("max_length"))


def _spans(offsets: torch.Tensor, limit: int | None) -> list[tuple[int, int]]:
    pairs = itertools.pairwise(offsets.tolist())
    return [(start, end if limit is None else min(end, start + limit)) for start, end in pairs]


def _draw_offsets(workload: Workload, rng: torch.Generator) -> torch.Tensor:
    """int64 [batch + 1]."""
    lengths = LENGTHS[workload.lengths].draw(workload.sizes["batch"], workload.sizes["max_length"], rng)
    return torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])


def _placed(
    values: torch.Tensor, offsets: torch.Tensor, scalars: Mapping[str, int], workload: Workload, device: str
) -> Inputs:
    """In the workload's dtypes and layout, on `device`."""
    place = LAYOUTS[workload.layout]
    return Inputs(
        {
            "values": place(values.to(device, getattr(torch, workload.dtype))),
            "offsets": place(offsets.to(device, getattr(torch, workload.index_dtype))),
        },
        scalars,
    )
