"""One call of a program or baseline, laid out in shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kevolve.judge.arena import Arena, Region
from kevolve.operators.operator import Inputs, Operator, Workload

_NAN_BYTE = 0xFF  # as floating point a NaN, as an integer -1: reading what must not be read shows


@dataclass(frozen=True)
class Arenas:
    """The memory that judge, child and baseline process share."""

    inputs: Arena
    outputs: Arena

    def reset(self) -> None:
        """Forget all calls."""
        self.inputs.reset()
        self.outputs.reset()


@dataclass(frozen=True)
class Call:
    """A call's inputs as the oracle sees them, and where its tensors lie in the arenas."""

    given: Inputs
    inputs: Mapping[str, Region]
    outputs: Mapping[str, Region]
    guards: Mapping[str, torch.Tensor]

    def numbers(self, operator: Operator) -> list[int]:
        """The entry point's arguments: offsets in bytes for tensors, values for scalars."""
        places = {**{n: r.offset for n, r in self.inputs.items()}, **{n: r.offset for n, r in self.outputs.items()}}
        return [places[a.name] if a.kind != "scalar" else int(self.given.scalars[a.name]) for a in operator.arguments]

    def description(self) -> dict[str, Any]:
        """The same for the baseline process: places, dtypes and shapes by name."""
        return {
            "tensors": {name: _describe(region) for name, region in self.inputs.items()},
            "outputs": {name: _describe(region) for name, region in self.outputs.items()},
            "scalars": dict(self.given.scalars),
        }

    def answer(self) -> dict[str, torch.Tensor]:
        """The outputs as they are now."""
        return {name: region.tensor for name, region in self.outputs.items()}

    def broken_guards(self, arenas: Arenas) -> list[str]:
        """Outputs around which something was written."""
        return [
            n for n, region in self.outputs.items() if not torch.equal(arenas.outputs.guards(region), self.guards[n])
        ]


def place(operator: Operator, workload: Workload, given: Inputs, arenas: Arenas) -> Call:
    """Copy `given` into shared memory and make room for outputs, poisoned and guarded."""
    shift = 1 if workload.layout == "misaligned" else 0
    inputs = {}
    for name, tensor in given.tensors.items():
        region = arenas.inputs.place(tuple(tensor.shape), tensor.dtype, shift=shift)
        region.tensor.copy_(tensor)
        inputs[name] = region
    return _with_outputs(operator, workload, given, inputs, arenas, shift)


def place_fresh(operator: Operator, workload: Workload, drawn: Inputs, rng: torch.Generator, arenas: Arenas) -> Call:
    """A call with new content made from `drawn`, written straight into shared memory: what every timed call gets."""
    capacity = operator.capacity(workload)
    if workload.layout != "contiguous" or capacity is None:
        return place(operator, workload, operator.refresh(drawn, workload, rng), arenas)
    room = {name: arenas.inputs.place((capacity[name],), tensor.dtype) for name, tensor in drawn.tensors.items()}
    given = operator.refresh(drawn, workload, rng, {name: region.tensor for name, region in room.items()})
    inputs = {name: Region(room[name].offset, tensor) for name, tensor in given.tensors.items()}
    return _with_outputs(operator, workload, given, inputs, arenas, 0)


def _with_outputs(
    operator: Operator, workload: Workload, given: Inputs, inputs: Mapping[str, Region], arenas: Arenas, shift: int
) -> Call:
    for region in inputs.values():
        _surround(arenas.inputs, region)
    outputs = {}
    dtypes = output_dtypes(operator, workload)
    for name, shape in operator.output_shapes(given).items():
        region = arenas.outputs.place(shape, dtypes[name], shift=shift)
        if region.tensor.numel():
            region.tensor.view(-1).view(torch.uint8).fill_(_NAN_BYTE)
        _surround(arenas.outputs, region)
        outputs[name] = region
    return Call(given, inputs, outputs, {name: arenas.outputs.guards(region) for name, region in outputs.items()})


def output_dtypes(operator: Operator, workload: Workload) -> dict[str, torch.dtype]:
    """The dtype of every output: the workload's own, or the one that the argument fixes."""
    named = {"value": workload.dtype, "index": workload.index_dtype}
    return {
        argument.name: getattr(torch, named.get(argument.dtype, argument.dtype))
        for argument in operator.arguments
        if argument.kind == "output"
    }


def _surround(arena: Arena, region: Region) -> None:
    before, after = arena.around(region)
    before.fill_(_NAN_BYTE)
    after.fill_(_NAN_BYTE)


def _describe(region: Region) -> list[Any]:
    return [region.offset, str(region.tensor.dtype).removeprefix("torch."), list(region.tensor.shape)]
