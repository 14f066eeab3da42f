"""Slots: where a program finds the arguments of its next calls, at the start of the inputs' memory.

A child binds its entry point to the slots once. For every block of calls the judge then writes the arguments, like the
content, while every thread of the child is stopped: no message tells the child of a call before its window begins.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kevolve.judge.arena import Arena
from kevolve.judge.call import Call
from kevolve.operators.operator import Operator

SLOTS_BYTES = 1 << 15
MOST_CALLS = 64


def calls_at_most(operator: Operator) -> int:
    """How many calls of the operator have slots."""
    return min(MOST_CALLS, SLOTS_BYTES // 8 // len(operator.arguments))


def write_slots(arena: Arena, operator: Operator, calls: Sequence[Call], addresses: tuple[int, int]) -> None:
    """Write the arguments of `calls`, and zeros behind. `addresses`: where inputs and outputs begin in the child."""
    numbers = torch.tensor([call.numbers(operator, addresses) for call in calls], dtype=torch.int64).view(-1)
    table = arena.bytes[:SLOTS_BYTES].view(torch.int64)
    table[: len(numbers)] = numbers
    table[len(numbers) :] = 0
