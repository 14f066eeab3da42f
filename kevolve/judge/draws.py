"""Draws: the inputs that programs are checked on, and what is right for them.

Making inputs and asking the oracle takes longer than running a good program, and no program outlives its judgement:
so one draw serves several programs, one after the other, and then comes a new one. A program never sees it
beforehand, and the content of timed calls is made anew for every call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property, partial

import torch

from kevolve.judge.streams import Streams
from kevolve.operators.operator import Fill, Inputs, Mismatch, Operator, Outputs, Workload
from kevolve.verdict import Role

PROGRAMS = 16  # that one draw serves
_MOST_BYTES = 1536 << 20  # kept per operator; what is not kept is drawn again, the same
_POOL_BYTES = 32 << 20  # of values that timed content is made from
_MEMORY_SHARE = 24  # or this part of the machine's memory, if that is less


@dataclass(frozen=True)
class Draw:
    """Inputs of a workload; `check` says whether outputs are right for them."""

    operator: Operator
    workload: Workload
    inputs: Inputs

    @cached_property
    def check(self) -> Callable[[Outputs], Mismatch | None]:
        """The oracle is asked when the first answer is to be checked."""
        return self.operator.checker(self.workload, self.inputs)

    @property
    def bytes(self) -> int:
        """About what it takes to keep: the inputs, and two bounds for every output."""
        given = sum(tensor.numel() * tensor.element_size() for tensor in self.inputs.tensors.values())
        answer = sum(torch.Size(shape).numel() for shape in self.operator.output_shapes(self.inputs).values())
        return int(given + 2 * answer * getattr(torch, self.workload.dtype).itemsize)


class Draws:
    """Draws for one operator, each from a stream of its own; the same in whatever order they are asked for."""

    def __init__(self, operator: Operator, streams: Streams):
        self.operator = operator
        self.streams = streams
        self.programs = 0
        self._kept: dict[str, Draw] = {}
        self._pools: dict[str, torch.Tensor] = {}
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self._room = min(_MOST_BYTES, memory // _MEMORY_SHARE)

    def of(self, workload: Workload) -> Draw:
        """The draw for a workload of the operator."""
        kept = self._kept.get(workload.name)
        if kept is not None:
            return kept
        rng = self.streams.of(f"draw {workload.name}")
        draw = Draw(self.operator, workload, self.operator.make_inputs(workload, rng))
        if draw.bytes <= self._room:
            self._room -= draw.bytes
            self._kept[workload.name] = draw
        return draw

    def source(self, workload: Workload) -> Inputs:
        """What the content of calls in blocks is made from. For timed sizes no program is ever given it as it is.

        There it is much more than a core's caches hold: whoever pieced it together from what calls were given would
        read more to make a call's content again than to read that content.
        """
        inputs = self.of(workload).inputs
        if workload.role == "adversarial":
            return inputs
        return self.operator.source(inputs, workload, partial(self._pool, workload))

    def _pool(self, workload: Workload, fill: Fill) -> torch.Tensor:
        """Values of the workload's kind and dtype, whatever its sizes."""
        key = f"pool {workload.values} {workload.dtype}"
        if key not in self._pools:
            dtype: torch.dtype = getattr(torch, workload.dtype)
            pool = torch.empty(_POOL_BYTES // dtype.itemsize)
            fill(pool, self.streams.of(key))
            self._pools[key] = pool.to(dtype)
        return self._pools[key]

    def odd(self, roles: Collection[Role], times: int) -> list[Workload]:
        """Each kind of content that else only small workloads have, at the sizes of `times` workloads of these roles.

        Those that are hardest to notice come at all sizes. Which sizes is as secret as the content: a program that is
        careful only at sizes that are never timed is found.
        """
        chooser = self.streams.chooser("odd")
        kinds: dict[str, list[Workload]] = {}
        for workload in self.operator.workloads:
            if workload.role in roles:
                for odd in self.operator.odd(workload, chooser):
                    kinds.setdefault(odd.values, []).append(odd)
        everywhere = self.operator.odd_everywhere
        return [
            odd
            for values, found in kinds.items()
            for odd in (found if values in everywhere else chooser.sample(found, min(times, len(found))))
        ]

    def is_used_up(self) -> bool:
        """Has it served its programs?"""
        return self.programs >= PROGRAMS
