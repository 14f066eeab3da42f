"""The inputs that programs are checked on, kept on the device with what is right for them."""

from __future__ import annotations

import torch

from kevolve.judge import draws
from kevolve.judge.streams import Streams
from kevolve.operators.operator import Operator, Workload

PROGRAMS = 64  # that one draw serves: asking the oracle about sizes that suit a GPU takes seconds
_MEMORY_SHARE = 0.25  # of the device's memory


class Draws(draws.Draws):
    """As on the CPU, drawn on the device."""

    def __init__(self, operator: Operator, streams: Streams):
        super().__init__(operator, streams)
        self._room = int(torch.cuda.get_device_properties(0).total_memory * _MEMORY_SHARE)

    def of(self, workload: Workload) -> draws.Draw:
        """The draw for a workload of the operator."""
        kept = self._kept.get(workload.name)
        if kept is not None:
            return kept
        rng = self.streams.of(f"draw {workload.name}")
        draw = draws.Draw(self.operator, workload, self.operator.make_inputs(workload, rng, "cuda"))
        if draw.bytes <= self._room:
            self._room -= draw.bytes
            self._kept[workload.name] = draw
        return draw

    def is_used_up(self) -> bool:
        """Has it served its programs?"""
        return self.programs >= PROGRAMS
