"""Screening of a user's own operator: do its functions do what a judge can work with, and is its check worth anything?

Asked before a search. That the check rejects what took no honest work is asked of every operator
(`kevolve.operators.screening`); here it is whether the reference is a function of its inputs, and whether those are
fresh.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from kevolve.errors import UsageError
from kevolve.operators.custom.operator import CustomOperator
from kevolve.operators.custom.parts import cast
from kevolve.operators.operator import Operator, Workload
from kevolve.operators.screening import weakness


def screen_operator(operator: CustomOperator) -> None:
    """Raises UsageError with the reason if a search on the operator would be worth nothing."""
    with torch.no_grad():
        for find in (misbehaviour, weakness):
            reason = find(operator)
            if reason:
                why = "" if find is misbehaviour else "\n  The judge would have to take such a program for a right one."
                raise UsageError(f"{operator.parts.where}: the operator {operator.name} is refused: {reason}{why}")


def misbehaviour(operator: CustomOperator) -> str:
    """What make_inputs or the reference does that a judge cannot work with; empty if nothing."""
    parts = operator.parts
    for workload in _search(operator):
        dtype = getattr(torch, workload.dtype)
        one, same, other = (parts.draw(workload.sizes, dtype, _generator(seed)) for seed in (1, 1, 2))
        if not _equal(one, same):
            return "make_inputs draws from something other than rng. Pass generator=rng to torch.randn and the like."
        tensors = any(isinstance(value, torch.Tensor) and value.numel() for value in one.values())
        if tensors and _equal(one, other):
            return "make_inputs gives the same content twice. Draw the inputs from rng, with generator=rng."
        values = cast(one, torch.float32)
        answer = parts.answer(values)
        if not _equal(values, cast(one, torch.float32)):
            return "reference changes its inputs. Let it compute new tensors."
        addresses = {v.untyped_storage().data_ptr(): n for n, v in values.items() if isinstance(v, torch.Tensor)}
        for name, part in answer.items():
            shared = addresses.get(part.untyped_storage().data_ptr())
            if shared is not None and part.numel():
                return f"its output {name} is the memory of its input {shared}. Let reference return a new tensor."
        if not _equal(answer, parts.answer(cast(one, torch.float32))):
            return "reference gives two answers to the same inputs. It must not draw random numbers or keep a state."
    return ""


def _search(operator: Operator) -> Iterator[Workload]:
    return (workload for workload in operator.workloads if workload.role == "search")


def _equal(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """The same tensors and integers; a NaN is equal to itself."""
    for name, value in one.items():
        another = other[name]
        if isinstance(value, torch.Tensor) and isinstance(another, torch.Tensor):
            if value.shape != another.shape or not torch.allclose(value, another, rtol=0, atol=0, equal_nan=True):
                return False
        elif value != another:
            return False
    return True


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
