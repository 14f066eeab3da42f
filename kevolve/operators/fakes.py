"""Fakes: answers that took no honest work, or are nearly right. A check that is worth anything rejects them all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from kevolve.errors import UsageError
from kevolve.operators.inputs import shifted_copy
from kevolve.operators.operator import Inputs, Operator, Outputs, Workload


@dataclass(frozen=True)
class Fake:
    """An answer and what it is. One that `needs_no_work` must not be right where a program is made fast."""

    what: str
    outputs: Outputs
    needs_no_work: bool = False


def fakes(operator: Operator, workload: Workload, given: Inputs, right: Outputs) -> Iterator[Fake]:
    """Every fake of `right`, which is the answer to `given` in a program's dtypes. Some may happen to be right."""
    rng = torch.Generator().manual_seed(2)
    others = _answered(operator, workload, _others(operator, workload, given, rng)) or right
    for name, part in right.items():
        if not part.numel():
            continue
        for what, fake in (*_constants(part, others[name]), *_copies(part, given)):
            yield Fake(f"{what} for its output {name}", {**right, name: fake}, needs_no_work=True)
        for what, fake in _damaged(part, rng):
            yield Fake(f"{what} for its output {name}", {**right, name: fake})
    yield Fake("the answer to other inputs", others, needs_no_work=True)
    for name, tensor in given.tensors.items():
        blind = Inputs({**given.tensors, name: torch.zeros_like(tensor)}, given.scalars)
        answer = _answered(operator, workload, blind)
        if answer is not None:
            yield Fake(f"an answer that takes its input {name} for zeros", answer)


def in_dtype(operator: Operator, workload: Workload, answer: Outputs) -> dict[str, torch.Tensor]:
    """An answer in the dtypes that a program's has."""
    named = {"value": workload.dtype, "index": workload.index_dtype}
    dtypes = {argument.name: named.get(argument.dtype, argument.dtype) for argument in operator.arguments}
    return {name: part.to(getattr(torch, dtypes[name])).contiguous() for name, part in answer.items()}


def _answered(operator: Operator, workload: Workload, given: Inputs) -> dict[str, torch.Tensor] | None:
    """The oracle's answer; None if a user's own function does not take such inputs."""
    try:
        return in_dtype(operator, workload, operator.oracle(given))
    except UsageError:
        return None


def _others(operator: Operator, workload: Workload, given: Inputs, rng: torch.Generator) -> Inputs:
    """Other inputs of the same sizes: another draw, or where its sizes are others its numbers in these places."""
    drawn = operator.make_inputs(workload, rng)
    if drawn.scalars == given.scalars and _shapes(drawn) == _shapes(given):
        return drawn
    tensors = dict(given.tensors)
    for name, tensor in given.tensors.items():
        source = drawn.tensors[name].reshape(-1)
        if tensor.is_floating_point() and len(source):
            tensors[name] = shifted_copy(source, source.new_empty(tensor.numel()), 0).view(tensor.shape)
    return Inputs(tensors, given.scalars)


def _shapes(inputs: Inputs) -> Mapping[str, torch.Size]:
    return {name: tensor.shape for name, tensor in inputs.tensors.items()}


def _constants(part: torch.Tensor, other: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """`other` is the same output for other inputs: what a program that was not told these could know."""
    known = (other if other.numel() else part).reshape(-1).double().nan_to_num(0, 0, 0)
    yield "zeros", torch.zeros_like(part)
    yield "ones", torch.ones_like(part)
    yield "a constant, the mean of an answer,", torch.full_like(part, float(known.mean()))
    yield "a constant, the first element of an answer,", torch.full_like(part, float(known[0]))


def _copies(part: torch.Tensor, given: Inputs) -> Iterator[tuple[str, torch.Tensor]]:
    """Each input in the output's shape and dtype, round and round if it is shorter."""
    for name, tensor in given.tensors.items():
        if tensor.numel():
            rounds = -(-part.numel() // tensor.numel())
            copied = tensor.reshape(-1).to(part.dtype).repeat(rounds)[: part.numel()]
            yield f"the input {name}", copied.view(part.shape)


def _damaged(part: torch.Tensor, rng: torch.Generator) -> Iterator[tuple[str, torch.Tensor]]:
    """The right output, but in another order, or with one place wrong."""
    if part.dim() and part.numel() > 1:
        yield "the right rows in another order", part[torch.randperm(len(part), generator=rng)]
        elements = torch.randperm(part.numel(), generator=rng)
        yield "the right elements in another order", part.reshape(-1)[elements].view(part.shape)
        yield "all right but for a row of zeros", _without_a_row(part)
    yield "all right but for one element", _with_one_off(part)


def _without_a_row(part: torch.Tensor) -> torch.Tensor:
    """Zeros in a row of middling size among those that are not zeros."""
    sizes = part.double().abs().nan_to_num(0, 0, 0).reshape(len(part), -1).sum(dim=1)
    ordered = sizes.argsort()
    ordered = ordered[sizes[ordered] > 0]
    damaged = part.clone()
    damaged[ordered[len(ordered) // 2 : len(ordered) // 2 + 1]] = 0
    return damaged


def _with_one_off(part: torch.Tensor) -> torch.Tensor:
    """The largest element is off by an eighth; of whole numbers one by one."""
    flat = part.reshape(-1).clone()
    place = int(flat.double().abs().nan_to_num(0, 0, 0).argmax())
    if part.is_floating_point():
        flat[place] *= 1.125
    else:
        flat[place] = ~flat[place] if part.dtype == torch.bool else flat[place] + 1
    return flat.view(part.shape)
