"""One call of a program or baseline, laid out in shared memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch

from kevolve.judge.arena import Arena, Region
from kevolve.operators.inputs import shifted_copy
from kevolve.operators.operator import Inputs, Operator, Workload

_NAN_BYTE = 0xFF  # as floating point a NaN: reading what must not be read shows
_NOISE_BYTES = 1 << 18


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
    """A call's inputs as the oracle sees them, and where its tensors lie in the arenas.

    `guards` are the bytes around each output, `poison` the bytes in each output before the call.
    """

    given: Inputs
    inputs: Mapping[str, Region]
    outputs: Mapping[str, Region]
    guards: Mapping[str, torch.Tensor]
    poison: Mapping[str, torch.Tensor]

    def numbers(self, operator: Operator, addresses: tuple[int, int]) -> list[int]:
        """The entry point's arguments: addresses for tensors, values for scalars.

        `addresses` are those at which the memory of inputs and of outputs begins.
        """
        places = {name: addresses[0] + region.offset for name, region in self.inputs.items()}
        places |= {name: addresses[1] + region.offset for name, region in self.outputs.items()}
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


def place(operator: Operator, workload: Workload, given: Inputs, arenas: Arenas, *, fenced: bool = False) -> Call:
    """Copy `given` into shared memory and make room for outputs, poisoned and guarded.

    `fenced`: the largest input and the last output end where the memory does, so that nothing can be borrowed behind
    them, not even for a moment. A guard zone tells only of what is still there when it is looked at.
    """
    shift = 1 if workload.layout == "misaligned" else 0
    inputs = {}
    last = max(given.tensors, key=lambda name: given.tensors[name].nbytes) if fenced else ""
    for name, tensor in given.tensors.items():
        shape, dtype = tuple(tensor.shape), tensor.dtype
        at_end = name == last and not shift
        region = arenas.inputs.place_last(shape, dtype) if at_end else arenas.inputs.place(shape, dtype, shift=shift)
        region.tensor.copy_(tensor)
        inputs[name] = region
    return _with_outputs(operator, workload, given, inputs, arenas, shift, fenced=fenced)


def place_as_timed(operator: Operator, workload: Workload, given: Inputs, arenas: Arenas) -> Call:
    """`place`, where a timed call of `workload` would lie: from where its arguments lie nobody shall know what it is.

    `given` may be of other contents, if `workload` has room for them.
    """
    capacity = operator.capacity(workload)
    if workload.layout != "contiguous" or capacity is None:
        return place(operator, workload, given, arenas)
    inputs = {}
    for name, tensor in given.tensors.items():
        room = arenas.inputs.place((capacity[name],), tensor.dtype)
        inputs[name] = Region(room.offset, room.tensor[: tensor.numel()].view(tensor.shape).copy_(tensor))
    return _with_outputs(operator, workload, given, inputs, arenas, 0)


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
    operator: Operator,
    workload: Workload,
    given: Inputs,
    inputs: Mapping[str, Region],
    arenas: Arenas,
    shift: int,
    *,
    fenced: bool = False,
) -> Call:
    for region in inputs.values():
        for zone in arenas.inputs.around(region):
            zone.fill_(_NAN_BYTE)
    outputs, poison = {}, {}
    dtypes = output_dtypes(operator, workload)
    shapes = operator.output_shapes(given)
    for name, shape in shapes.items():
        at_end = fenced and not shift and name == list(shapes)[-1]
        place_it = arenas.outputs.place_last if at_end else partial(arenas.outputs.place, shift=shift)
        region = outputs[name] = place_it(shape, dtypes[name])
        poison[name] = _poisoned(region.tensor)
        for zone in arenas.outputs.around(region):
            zone.copy_(_noise(len(zone)))
    return Call(given, inputs, outputs, {n: arenas.outputs.guards(r) for n, r in outputs.items()}, poison)


def _poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """Fill a tensor with what no program would leave there, NaN or noise, and return these bytes."""
    content = as_bytes(tensor)
    if tensor.is_floating_point():
        return content.fill_(_NAN_BYTE)[:0]
    noise = _noise(len(content))
    content.copy_(noise & 1 if tensor.dtype == torch.bool else noise)
    return content.clone()


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor's memory."""
    return tensor.view(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)


def is_untouched(content: torch.Tensor, poison: torch.Tensor) -> bool:
    """Are these bytes of an output still its poison? `poison` is empty where it was NaN."""
    return torch.equal(content, poison) if len(poison) else bool((content == _NAN_BYTE).all())


@cache
def _block_of_noise() -> torch.Tensor:
    return torch.frombuffer(bytearray(os.urandom(_NOISE_BYTES)), dtype=torch.uint8)


def _noise(count: int) -> torch.Tensor:
    """`count` bytes that nobody knows beforehand."""
    return shifted_copy(
        _block_of_noise(), torch.empty(count, dtype=torch.uint8), int.from_bytes(os.urandom(4)) % _NOISE_BYTES
    )


def output_dtypes(operator: Operator, workload: Workload) -> dict[str, torch.dtype]:
    """The dtype of every output: the workload's own, or the one that the argument fixes."""
    named = {"value": workload.dtype, "index": workload.index_dtype}
    return {
        argument.name: getattr(torch, named.get(argument.dtype, argument.dtype))
        for argument in operator.arguments
        if argument.kind == "output"
    }


def _describe(region: Region) -> list[Any]:
    return [region.offset, str(region.tensor.dtype).removeprefix("torch."), list(region.tensor.shape)]
