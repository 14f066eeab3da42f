"""The oracles' loops over spans as whole-tensor operations, for devices: a loop launches kernels there one by one.

Each is the loop of the operator's own file in another form; a test holds them against each other on every workload.
"""

from __future__ import annotations

import torch

from kevolve.operators.jagged.jagged import owners, spans
from kevolve.operators.operator import Inputs


class Gathered:
    """The rows of jagged tensors that take part: their numbers, the entry that each belongs to, its place there.

    All int64 [used]; `counts` [batch]: rows of each entry. `whole`: of every span in full, whatever `max_length` says.
    """

    def __init__(self, inputs: Inputs, *, whole: bool = False):
        self.batch = inputs.batch
        offsets: torch.Tensor = inputs.offsets.long()
        if not self.batch:
            self.rows = self.entries = self.places = self.counts = offsets.new_empty(0)
            return
        entry, takes_part = owners(inputs)
        if whole:
            takes_part = torch.arange(inputs.total, device=offsets.device) < offsets[-1]
        self.rows = takes_part.nonzero().squeeze(1)
        self.entries = entry[self.rows]
        self.places = self.rows - offsets[self.entries]
        self.counts = torch.bincount(self.entries, minlength=self.batch)

    def sums(self, numbers: torch.Tensor) -> torch.Tensor:
        """[batch, ...]: the sum over each entry of `numbers`, [used, ...]."""
        return self._reduced(numbers, "sum", 0.0)

    def greatest(self, numbers: torch.Tensor, least: float) -> torch.Tensor:
        """[batch, ...]: the greatest over each entry of `numbers`, [used, ...], or `least`."""
        return self._reduced(numbers, "max", least)

    def divisors(self) -> torch.Tensor:
        """float64 [batch]: rows of each entry, 1 where there are none, as nothing is divided there."""
        return self.counts.double().clamp_(min=1)

    def _reduced(self, numbers: torch.Tensor, how: str, initial: float) -> torch.Tensor:
        if not numbers.numel():
            return numbers.new_full((self.batch, *numbers.shape[1:]), initial)
        # Each sum is one thread's: adding into the sums atomically took seconds for the largest workloads.
        found: torch.Tensor = torch.segment_reduce(
            numbers, how, lengths=self.counts, axis=0, unsafe=True, initial=initial
        )
        return found

    def softmax(self, values: torch.Tensor) -> torch.Tensor:
        """float64, like `values` [total, dim]: the softmax over each entry, column by column; else 0."""
        numbers = values[self.rows].double()
        powers = numbers.sub_(self.greatest(numbers, -torch.inf)[self.entries]).exp_()
        return self._spread(values, powers.div_(self.sums(powers)[self.entries]))

    def normalised(self, values: torch.Tensor, epsilon: float) -> torch.Tensor:
        """float64, like `values` [total, dim]: every entry's numbers less their mean, by their deviation; else 0."""
        numbers, count = values[self.rows].double(), self.divisors() * values.shape[1]
        numbers -= (self.sums(numbers.sum(dim=1)) / count)[self.entries][:, None]
        variance = self.sums(numbers.square().sum(dim=1)) / count
        return self._spread(values, numbers.div_((variance + epsilon).sqrt_()[self.entries][:, None]))

    def _spread(self, values: torch.Tensor, results: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(values.shape, dtype=results.dtype, device=values.device)
        return out.index_copy_(0, self.rows, results)


def on_device(tensor: torch.Tensor) -> bool:
    """Is it where a loop over spans would take long?"""
    return tensor.device.type != "cpu"


def sum_spans(inputs: Inputs, values: torch.Tensor) -> torch.Tensor:
    """float64 [batch, dim]: the sum over each span of `values`, float64 [total, dim]."""
    if on_device(values):
        gathered = Gathered(inputs)
        return gathered.sums(values[gathered.rows])
    out = torch.zeros(inputs.batch, inputs.dim, dtype=torch.float64)
    for b, (start, end) in enumerate(spans(inputs)):
        out[b] = values[start:end].sum(dim=0)
    return out
