"""Calls for Triton's interpreter: laid out in memory as for any device, handed over in files, looked at afterwards.

What comes back was in the hands of a program: no link is followed, and only plain files of the right size are read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import torch

from kevolve.judge.arena import Arena
from kevolve.judge.call import Arenas, Call, place
from kevolve.judge.correctness import Rejection, check_guards, reject_if
from kevolve.judge.draws import Draws
from kevolve.operators.operator import Operator, Workload
from kevolve.verdict import Rejected

_ARENA_BYTES = 64 << 20
_CALL_BYTES = 4 << 20  # of what is given to the interpreter for one call
_LOG_BYTES = 1 << 16
_CELLS = 4096  # the product of a workload's sizes above which they are halved


class Calls:
    """One call of each workload, laid out in memory as for any device and handed over in files."""

    def __init__(self, operator: Operator, draws: Draws, folder: Path):
        self.operator = operator
        self.draws = draws
        self.folder = folder
        self.calls: list[tuple[Workload, Call, Arenas]] = []

    def place(self, workload: Workload) -> bool:
        """Write its inputs and room for outputs. False if they are too much for the interpreter."""
        arenas = Arenas(Arena(_ARENA_BYTES, read_only=False), Arena(_ARENA_BYTES, read_only=False))
        try:
            call = place(self.operator, workload, self.draws.of(workload).inputs, arenas)
            is_small = max(arenas.inputs.next, arenas.outputs.next) <= _CALL_BYTES
        except MemoryError:
            is_small = False
        if not is_small:
            _close(arenas)
            return False
        for name, arena in (("inputs", arenas.inputs), ("outputs", arenas.outputs)):
            self._file(len(self.calls), name).write_bytes(arena.memory[: arena.next])
        self.calls.append((workload, call, arenas))
        return True

    def _file(self, number: int, name: str) -> Path:
        return self.folder / f"{number}.{name}"

    def done(self) -> int:
        """How many calls the process says it has done: as many as there are, at most."""
        return min(_left(self.folder / "done", _LOG_BYTES).count(b"\n"), len(self.calls))

    def described(self) -> list[dict[str, Any]]:
        """Each call for the interpreter: where its tensors are, and its scalars."""
        found = []
        for workload, call, _ in self.calls:
            regions = {n: ("inputs", r) for n, r in call.inputs.items()}
            regions |= {n: ("outputs", r) for n, r in call.outputs.items()}
            arguments = [
                int(call.given.scalars[argument.name])
                if argument.kind == "scalar"
                else _described(*regions[argument.name])
                for argument in self.operator.arguments
            ]
            found.append({"workload": workload.name, "arguments": arguments})
        return found

    def check(self, number: int) -> None:
        """Raises Rejection if the answer to a call is wrong, or something was written beside it or to the inputs."""
        workload, call, arenas = self.calls[number]
        size = arenas.inputs.next
        if _left(self._file(number, "inputs"), size) != arenas.inputs.memory[:size]:
            raise Rejection(Rejected("correctness", f"writes to its inputs on {workload.name}"))
        answer = _left(self._file(number, "outputs"), arenas.outputs.next)
        if len(answer) != arenas.outputs.next:
            raise Rejection(Rejected("correctness", f"leaves no outputs on {workload.name}"))
        arenas.outputs.bytes[: len(answer)] = torch.frombuffer(bytearray(answer), dtype=torch.uint8)
        check_guards(workload, call, arenas, "correctness")
        reject_if(self.draws.of(workload).check(call.answer()), workload, "correctness")

    def close(self) -> None:
        """Give the memory back."""
        for _, _, arenas in self.calls:
            _close(arenas)


def _close(arenas: Arenas) -> None:
    for arena in (arenas.inputs, arenas.outputs):
        arena.close()


def _left(path: Path, most: int) -> bytes:
    """What a process that a program was in has left in a file, up to `most` bytes: nothing if it is no plain file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""


def _described(where: str, region: Any) -> dict[str, Any]:
    tensor = region.tensor
    dtype = str(tensor.dtype).removeprefix("torch.")
    return {"file": where, "offset": region.offset, "shape": list(tensor.shape), "dtype": dtype}


def for_the_interpreter(operator: Operator) -> Iterator[Workload]:
    """The workloads as the interpreter can take them, smallest first."""
    smaller = [
        replace(
            workload,
            sizes=_fewer(workload.sizes),
            dtype="float32" if workload.dtype == "bfloat16" else workload.dtype,
        )
        for workload in operator.workloads
    ]
    return iter(sorted(smaller, key=lambda workload: prod(max(size, 1) for size in workload.sizes.values())))


def _fewer(sizes: Any) -> dict[str, int]:
    """Sizes with the largest halved until there are few enough cells."""
    fewer = dict(sizes)
    while prod(max(size, 1) for size in fewer.values()) > _CELLS:
        largest = max(fewer, key=lambda name: fewer[name])
        fewer[largest] = -(-fewer[largest] // 2)
    return fewer
