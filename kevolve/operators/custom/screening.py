"""Screening: is an operator's check worth anything? Asked before a search, which would only find what the check allows.

An operator is refused if zeros, a constant, an input passed through or a half-precision version would pass, if its
answer depends on more than its inputs, or if inputs are not fresh. `weakness` works for every operator; `misbehaviour`
and `passing_half_precision` need a user's functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from kevolve.errors import UsageError
from kevolve.operators.custom.operator import CustomOperator
from kevolve.operators.custom.parts import call, cast, named
from kevolve.operators.operator import Inputs, Operator, Outputs, Workload

HALVES = (torch.bfloat16, torch.float16)
ENOUGH_ELEMENTS = 64  # one number may be right by luck; so many are not
MOST_DRAWS = 8


def screen_operator(operator: CustomOperator) -> None:
    """Raises UsageError with the reason if a search on the operator would be worth nothing."""
    with torch.no_grad():
        for find in (misbehaviour, weakness, passing_half_precision):
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


def weakness(operator: Operator) -> str:
    """Which trivial answer passes the operator's check on a search workload, if one does."""
    for workload in _search(operator):
        drawn = _drawn(operator, workload, 3)
        mismatch = _checked(operator, drawn, drawn.expected)
        if mismatch:
            return f"its check does not take the right answer on {workload.name}: {mismatch}"
        right = _in_dtype(operator, workload, drawn.expected)
        others = _in_dtype(operator, workload, operator.oracle(operator.make_inputs(workload, _generator(2))))
        for what, fake in _fakes(right, others, drawn.given):
            if not _checked(operator, drawn, fake):
                return f"{what} would pass its check on {workload.name}."
    return ""


def passing_half_precision(operator: CustomOperator) -> str:
    """Does the reference pass in half precision where float32 is asked for? And in float32, as it must?

    Several draws where an answer is only a few numbers, which may be right by luck.
    """
    for workload in _search(operator):
        left, seen = list(HALVES) if workload.dtype == "float32" else [], 0
        for seed in range(MOST_DRAWS):
            drawn = _drawn(operator, workload, 4 + seed)
            wrong = _computed_in(operator, drawn, torch.float32)
            if wrong:
                return f"the reference itself, computed in float32, does not pass its check on {workload.name}: {wrong}"
            left = [half for half in left if not _computed_in(operator, drawn, half)]
            seen += sum(part.numel() for part in drawn.expected.values())
            if seen >= ENOUGH_ELEMENTS or not left:
                break
        for half in left:
            name = str(half).removeprefix("torch.")
            return f"the reference computed in {name} would pass its check on {workload.name}, which is float32."
    return ""


@dataclass(frozen=True)
class Drawn:
    """A workload with inputs and the right answer."""

    workload: Workload
    given: Inputs
    expected: Outputs


def _drawn(operator: Operator, workload: Workload, seed: int) -> Drawn:
    given = operator.make_inputs(workload, _generator(seed))
    return Drawn(workload, given, operator.oracle(given))


def _checked(operator: Operator, drawn: Drawn, answer: Outputs) -> str:
    """What is wrong with an answer, cast to the dtypes of a program's; empty if nothing."""
    cast_answer = _in_dtype(operator, drawn.workload, answer)
    mismatch = operator.check(drawn.workload, cast_answer, drawn.expected, drawn.given)
    return f"{mismatch.reason} {mismatch.detail}" if mismatch is not None else ""


def _computed_in(operator: CustomOperator, drawn: Drawn, dtype: torch.dtype) -> str:
    """What is wrong with the reference's answer when it computes in `dtype`. One that cannot is wrong, too."""
    try:
        answer = named(call(operator.parts.reference, cast(operator.values(drawn.given), dtype)))
    except Exception as error:  # whatever a user's function raises
        return f"{type(error).__name__}: {error}"
    return _checked(operator, drawn, answer)


def _fakes(
    right: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor], given: Inputs
) -> Iterator[tuple[str, Outputs]]:
    """Answers that are right but for one output, which took no work. `others` are right for other inputs."""
    for name, part in right.items():
        if not part.numel():
            continue
        other = (others[name] if others[name].numel() else part).reshape(-1).double().nan_to_num()
        for what, fake in (
            ("zeros", torch.zeros_like(part)),
            ("a constant, the mean of an answer,", torch.full_like(part, float(other.mean()))),
            ("a constant, the first element of an answer,", torch.full_like(part, float(other[0]))),
            *((f"the input {source}", copy) for source, copy in _copies(part, given)),
        ):
            yield f"{what} for its output {name}", {**right, name: fake}


def _copies(part: torch.Tensor, given: Inputs) -> Iterator[tuple[str, torch.Tensor]]:
    """Inputs of as many elements as the output, in its shape and dtype."""
    for name, tensor in given.tensors.items():
        if tensor.numel() == part.numel():
            yield name, tensor.reshape(part.shape).to(part.dtype)


def _in_dtype(operator: Operator, workload: Workload, answer: Outputs) -> dict[str, torch.Tensor]:
    """An answer in the dtypes that a program's has."""
    fixed = {argument.name: argument.dtype for argument in operator.arguments if argument.dtype != "value"}
    return {n: part.to(getattr(torch, fixed.get(n, workload.dtype))).contiguous() for n, part in answer.items()}


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
