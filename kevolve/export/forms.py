"""Forms: which of an operator's baselines may stand in for its champion, and which have gradients to lend.

Where the champion is not proven its answer must still be right, so a form counts only if it is right on every
adversarial workload. The oracle is the last resort: right by definition, differentiable, and slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kevolve.operators.custom.operator import CustomOperator
from kevolve.operators.operator import Baseline, Inputs, Operator, Outputs, Workload
from kevolve.verdict import Measurement

EAGER = "eager"  # a user's own reference, as its baseline is called
_CLOSE = 1e-4  # a gradient, as a share of the greatest; an accumulation that is too short misses by more


@dataclass(frozen=True)
class Forms:
    """Names of baselines, best first: for calls without empty tensors, for all calls, and for gradients of the former.

    `is_differentiable` says whether the oracle has gradients at all.
    """

    forward: tuple[str, ...]
    always: tuple[str, ...]
    gradient: tuple[str, ...]
    is_differentiable: bool


class Tried:
    """Tries baselines on the CPU, on inputs as the package hands them to a form."""

    def __init__(self, operator: Operator):
        self.operator = operator
        self.table = operator.baselines("cpu")
        self.trials = [] if isinstance(operator, CustomOperator) else list(_trials(operator))
        self.wrong: dict[str, list[Inputs]] = {}

    def is_right(self, name: str, *, but_empty: bool = False) -> bool:
        """Is the form right on every adversarial workload, or on those where no size is 0?"""
        if isinstance(self.operator, CustomOperator):
            return name == EAGER
        if name not in self.wrong:
            form = self.table[name]
            self.wrong[name] = [inputs for inputs, check in self.trials if not _is_right(form, inputs, check)]
        return not any(all(inputs.scalars.values()) or not but_empty for inputs in self.wrong[name])

    def forms(self, measured: Iterable[Measurement]) -> Forms:
        """Which may stand in for the program; `measured` tells which were fastest where it was judged."""
        if isinstance(self.operator, CustomOperator):
            has_gradient = _has_gradient(self.operator)
            return Forms((EAGER,), (EAGER,), (EAGER,) if has_gradient else (), has_gradient)
        names = [name for name in _strongest_first(self.table, measured) if not name.startswith("compiled")]
        forward = [name for name in names if self.is_right(name, but_empty=True)]
        always = [name for name in forward if self.is_right(name)]
        full = [inputs for inputs, _ in self.trials if all(inputs.scalars.values())]
        wanted = [(inputs, gradients(self.operator.oracle, single(inputs))) for inputs in full]
        told = [(inputs, found) for inputs, found in wanted if found and all(bool(g.isfinite().all()) for g in found)]
        lends = [
            name for name in forward if told and all(_agrees(self.table[name], inputs, found) for inputs, found in told)
        ]
        return Forms(tuple(forward), tuple(always), tuple(lends), bool(told))


def gradients(function: Baseline, inputs: Inputs) -> Sequence[torch.Tensor] | None:
    """Those of a fixed weighting of the floating outputs, by floating input; None where there are none.

    By torch.func, as in the package: inside of an operator PyTorch records nothing for its older interface.
    """
    leaves = {n: t.detach() for n, t in inputs.tensors.items() if t.is_floating_point()}

    def answer(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        copies = {name: leaf.clone() for name, leaf in zip(leaves, given, strict=True)}  # an oracle may work in place
        outputs = function(Inputs({**inputs.tensors, **copies}, inputs.scalars))
        return tuple(part for part in outputs.values() if part.is_floating_point())

    if not leaves:
        return None
    pulled: Any = torch.func.vjp(answer, *leaves.values())
    parts, pull = pulled
    if not parts:
        return None
    found: Sequence[torch.Tensor] = pull(tuple(_weights(part) for part in parts))
    return found


def _weights(part: torch.Tensor) -> torch.Tensor:
    drawn = torch.randn(part.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return drawn.to(part.dtype)


def _strongest_first(table: Iterable[str], measured: Iterable[Measurement]) -> list[str]:
    """Those that were fastest somewhere, by the traffic that they were fastest for; then as the operator has them."""
    traffic: dict[str, float] = {}
    for measurement in measured:
        traffic[measurement.baseline] = traffic.get(measurement.baseline, 0.0) + measurement.weight
    return sorted(table, key=lambda name: -traffic.get(name, 0.0))


def _trials(operator: Operator) -> Iterator[tuple[Inputs, Callable[[Outputs], object]]]:
    """Inputs of the adversarial workloads, as the package hands them to a form, with their checks."""
    for workload in _small(operator.workloads):
        inputs = operator.make_inputs(workload, torch.Generator().manual_seed(0))
        given = Inputs({n: t.contiguous() for n, t in inputs.tensors.items()}, inputs.scalars)
        yield given, operator.checker(workload, given)


def _small(workloads: Sequence[Workload]) -> list[Workload]:
    return [workload for workload in workloads if workload.role == "adversarial" and workload.dtype != "float16"]


def _is_right(form: Baseline, inputs: Inputs, check: Callable[[Outputs], object]) -> bool:
    try:
        return check(form(inputs)) is None
    except (RuntimeError, ValueError, IndexError, NotImplementedError):  # it does not take them
        return False


def _agrees(form: Baseline, inputs: Inputs, wanted: Sequence[torch.Tensor]) -> bool:
    try:
        found = gradients(form, single(inputs))
    except (RuntimeError, ValueError, IndexError, NotImplementedError):
        return False
    return found is not None and all(
        not wish.numel() or bool(((got - wish).abs() <= _CLOSE * wish.abs().max() + 1e-6).all())
        for got, wish in zip(found, wanted, strict=True)
    )


def single(inputs: Inputs) -> Inputs:
    """The same in float32, in which the package asks for gradients."""
    tensors = {n: t.float() if t.is_floating_point() else t for n, t in inputs.tensors.items()}
    return Inputs(tensors, inputs.scalars)


def _has_gradient(operator: CustomOperator) -> bool:
    """Does a user's reference give a gradient for every floating input?"""
    inputs = operator.example()
    try:
        return gradients(operator.baselines("cpu")[EAGER], inputs) is not None
    except RuntimeError:
        return False
