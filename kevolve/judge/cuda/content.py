"""What calls are given and what is made of their answers, all on the device.

A block is a number of calls laid out one after the other. Their outputs start as one NaN with a random payload, and
the guard zones around them as one random byte, both chosen anew for every block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kevolve.judge.arena import Region
from kevolve.judge.correctness import Rejection, reject_if
from kevolve.judge.cuda.memory import Arena
from kevolve.judge.streams import Streams
from kevolve.operators.operator import Inputs, Operator, Workload
from kevolve.verdict import Rejected, Stage

_BEYOND = 0xFF  # around inputs; as floating point a NaN, as an integer -1: reading what must not be read shows
_QUIET_NANS = {4: (torch.int32, 0x7FC00000, 22), 2: (torch.int16, 0x7FC0, 6), 8: (torch.int64, 0x7FF8 << 48, 51)}
_FLOAT16_NAN = (torch.int16, 0x7E00, 9)
_CHECKED_ENTRIES = 8  # of a batch, where a call is compared with the oracle in part


@dataclass(frozen=True)
class Call:
    """A call's inputs as the oracle sees them, what they are content of, and where its tensors lie."""

    workload: Workload
    given: Inputs
    inputs: Mapping[str, Region]
    outputs: Mapping[str, Region]

    def arguments(self, operator: Operator) -> list[Any]:
        """For the child: integers, and [inputs or outputs, offset in bytes, shape, dtype]."""
        found: list[Any] = []
        for argument in operator.arguments:
            if argument.kind == "scalar":
                found.append(int(self.given.scalars[argument.name]))
            else:
                memory = "inputs" if argument.kind == "input" else "outputs"
                found.append(
                    [memory, *_described((self.inputs if memory == "inputs" else self.outputs)[argument.name])]
                )
        return found

    def description(self) -> dict[str, Any]:
        """The same for the baseline process, by name."""
        return {
            "tensors": {name: _described(region) for name, region in self.inputs.items()},
            "outputs": {name: _described(region) for name, region in self.outputs.items()},
            "scalars": dict(self.given.scalars),
        }

    def answer(self) -> dict[str, torch.Tensor]:
        """The outputs as they are now."""
        return {name: region.tensor for name, region in self.outputs.items()}


def _described(region: Region) -> list[Any]:
    return [region.offset, list(region.tensor.shape), str(region.tensor.dtype).removeprefix("torch.")]


@dataclass
class Block:
    """Calls of one workload in the shared memory, and how their outputs looked before."""

    operator: Operator
    workload: Workload
    arenas: tuple[Arena, Arena]
    streams: Streams
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inputs, self.outputs = self.arenas
        self.inputs.reset()
        self.outputs.reset()
        self.guard = self.streams.decisions.randrange(1, 255)
        self.number = self.streams.decisions.randrange(1 << 50)

    def place(self, given: Inputs, *, surrounded: bool = True) -> Call:
        """One more call, on a copy of `given`, NaN around it. MemoryError where it does not fit."""
        shift = 1 if self.workload.layout == "misaligned" else 0
        inputs = {}
        for name, tensor in given.tensors.items():
            region = self.inputs.place(tuple(tensor.shape), tensor.dtype, shift=shift)
            region.tensor.copy_(tensor)
            for zone in self.inputs.around(region) if surrounded else ():
                zone.fill_(_BEYOND)
            inputs[name] = region
        call = Call(self.workload, given, inputs, self._outputs(given, shift))
        self.calls.append(call)
        return call

    def draw(self, content: Workload) -> Call:
        """One more call with content of its own, drawn on the device: as of `content`, which has the same dtypes."""
        given = self.operator.make_inputs(content, self.streams.next_call(), "cuda")
        call = self.place(given, surrounded=False)  # of what is read beside them the untimed calls tell
        tensors = {name: region.tensor for name, region in call.inputs.items()}
        self.calls[-1] = Call(content, Inputs(tensors, call.given.scalars), call.inputs, call.outputs)
        return self.calls[-1]

    def _outputs(self, given: Inputs, shift: int) -> dict[str, Region]:
        outputs = {}
        named = {"value": self.workload.dtype, "index": self.workload.index_dtype}
        shapes = self.operator.output_shapes(given)
        for argument in self.operator.arguments:
            if argument.kind == "output":
                dtype = getattr(torch, named.get(argument.dtype, argument.dtype))
                region = self.outputs.place(shapes[argument.name], dtype, shift=shift)
                kind, pattern = self.poison(dtype)
                region.tensor.view(-1).view(kind).fill_(pattern)
                for zone in self.outputs.around(region):
                    zone.fill_(self.guard)
                outputs[argument.name] = region
        return outputs

    def poison(self, dtype: torch.dtype) -> tuple[torch.dtype, int]:
        """What outputs of `dtype` start as, and the integer dtype to see it in: a NaN of which there are many.

        A bool starts as a byte that is neither; of other single bytes nothing can be told by looking.
        """
        if dtype.itemsize == 1:
            return torch.uint8, 2 + self.number % 254
        kind, pattern, bits = _FLOAT16_NAN if dtype is torch.float16 else _QUIET_NANS[dtype.itemsize]
        return kind, pattern | (self.number % (1 << bits)) | 1

    @property
    def bytes(self) -> int:
        """Of inputs and outputs together."""
        return self.inputs.next + self.outputs.next

    def reject_if_spilled(self, stage: Stage) -> None:
        """Raises Rejection if something was written beside the outputs of any call."""
        zones = [
            (name, zone) for call in self.calls for name, r in call.outputs.items() for zone in self.outputs.around(r)
        ]
        if bool((torch.cat([zone for _, zone in zones]) != self.guard).any()):
            broken = dict.fromkeys(name for name, zone in zones if bool((zone != self.guard).any()))
            raise Rejection(Rejected(stage, f"writes outside {', '.join(broken)} on {self.workload.name}"))

    def reject_if_unwritten(self) -> None:
        """Raises Rejection if any element of any call's outputs is still as it was."""
        left = [
            (
                region.tensor.view(-1).view(self.poison(region.tensor.dtype)[0]) == self.poison(region.tensor.dtype)[1]
            ).any()
            for call in self.calls
            for region in call.outputs.values()
            if region.tensor.numel() and region.tensor.dtype is not torch.uint8
        ]
        if left and bool(torch.stack(left).any()):
            raise Rejection(Rejected("timing", f"leaves outputs unwritten on {self.workload.name} in a timed call"))

    def reject_if_wrong(self, call: Call) -> None:
        """Raises Rejection if a random part of a timed call's answer is wrong."""
        rng = self.streams.next_call()
        given, answer = self.operator.sample(call.given, call.answer(), rng, _CHECKED_ENTRIES)
        mismatch = self.operator.check(call.workload, answer, self.operator.oracle(given), given)
        reject_if(mismatch, call.workload, "timing")


def drawn(operator: Operator, contents: Sequence[Workload], arenas: tuple[Arena, Arena], streams: Streams) -> Block:
    """A block of calls with fresh content, each of its own workload; all have the same dtypes and layout."""
    block = Block(operator, contents[0], arenas, streams)
    for content in contents:
        block.draw(content)
    return block
