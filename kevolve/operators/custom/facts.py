"""Facts: what is found out about a user's operator by running it once, before a search, and then holds everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kevolve.errors import UsageError
from kevolve.operators.custom.arguments import Scalar, Signature, find_signature
from kevolve.operators.custom.contents import MAKES_TIES, change
from kevolve.operators.custom.parts import Parts, cast, is_floating, on_cpu
from kevolve.operators.custom.tolerance import ExactAnswer, Exactly, allowed, count_terms
from kevolve.operators.custom.workloads import derive_adversarial, derive_contents, read_workloads
from kevolve.operators.operator import Argument, Workload, dimension

NOTICED, FORGIVEN = 2.0, 4.0  # the reference's float32 error counts from half of what is allowed; fourfold is forgiven
SOMETIMES = 0.9  # of a share that is less than one: it depends on the draw


@dataclass(frozen=True)
class Rounding:
    """What one output's tolerance needs to know of a workload (tolerance.py)."""

    terms: int
    floor: float


@dataclass(frozen=True)
class Facts:
    """What holds of every call.

    `rounding` is by workload and floating output; `shares` by floating input: what part of it matters at least;
    `contents` are those of contents.py for which the reference's answer is finite and float32 good enough.
    """

    workloads: tuple[Workload, ...]
    arguments: tuple[Argument, ...]
    scalars: tuple[Scalar, ...]
    rounding: Mapping[str, Mapping[str, Rounding]]
    shares: Mapping[str, float]
    contents: tuple[str, ...] = ()


@torch.no_grad()
def find_facts(parts: Parts) -> Facts:
    """Run the user's functions on every workload. Raises UsageError where they do not do as they must."""
    listed = read_workloads(parts.where, parts.workloads, parts.sizes)
    signature = find_signature(parts, listed)
    exactly = exactly_of(parts)
    rounding: dict[str, Mapping[str, Rounding]] = {}
    shares: dict[str, float] = {}
    for workload in listed:
        values = _draw(parts, workload, seed=2)
        answer = ExactAnswer(exactly(values))
        rounding[workload.name] = _rounding(parts, exactly, values, answer, workload)
        if workload.role != "adversarial" and parts.cost is None:
            shares = _least(shares, _shares(exactly, values))
    derived = []
    for workload, base in derive_adversarial(listed):
        if workload.name not in rounding and _takes(parts, exactly, workload, signature):
            rounding[workload.name] = rounding[base.name]
            derived.append(workload)
    contents = []
    for workload in derive_contents(listed):
        found = _exact_rounding(parts, exactly, workload)
        if found is not None:
            rounding[workload.name] = found
            derived.append(workload)
            contents.append(workload.values)
    workloads = (*listed, *derived)
    return Facts(workloads, signature.arguments, signature.scalars, rounding, shares, tuple(dict.fromkeys(contents)))


def exactly_of(parts: Parts) -> Exactly:
    """The exact answer to inputs: the user's oracle, or the reference in float64. UsageError if it is not float64."""

    def exactly(values: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        doubled = {name: value.double() if is_floating(value) else value for name, value in values.items()}
        if parts.oracle is not None:
            doubled = on_cpu(doubled)
        title = "reference" if parts.oracle is None else "oracle"
        answer = parts.answer(doubled, parts.oracle, title)
        for name, part in answer.items():
            if parts.oracle is None and part.is_floating_point() and part.dtype != torch.float64:
                raise UsageError(
                    f"{parts.where}: reference answers {name} in {part.dtype} when its inputs are float64, so it"
                    " cannot be its own oracle.\n  Leave dtypes to the inputs (x.dtype instead of torch.float32, no"
                    " .float()), or define oracle(...), the same in float64."
                )
        return {name: part.double() if part.is_floating_point() else part for name, part in answer.items()}

    return exactly


def _rounding(
    parts: Parts, exactly: Exactly, values: Mapping[str, Any], answer: ExactAnswer, workload: Workload
) -> dict[str, Rounding]:
    """Terms and floors of every floating output, from one draw."""
    if parts.check is not None:
        return {}
    terms = count_terms(exactly, values, answer)
    single = parts.answer(cast(values, torch.float32))
    found = {}
    for name, sensitivity in answer.sensitivity(exactly, values).items():
        wanted = answer[name]
        error = (single[name].double() - wanted).abs_().nan_to_num_(0.0, 0.0, 0.0)
        excess = error[error * NOTICED > allowed(wanted, sensitivity, terms[name], 0.0, torch.float32)]
        floor = FORGIVEN * float(excess.max()) if excess.numel() else 0.0
        found[name] = Rounding(terms[name], floor)
    return found


def _exact_rounding(parts: Parts, exactly: Exactly, workload: Workload) -> dict[str, Rounding] | None:
    """Of a content that was not asked for: None unless the reference in float32 is right for it, and finite."""
    try:
        values = _draw(parts, workload, seed=4)
        answer = ExactAnswer(exactly(values))
        if not all(bool(part.isfinite().all()) for part in answer.values()):
            return None
        if workload.values in MAKES_TIES and not all(part.is_floating_point() for part in answer.values()):
            return None  # which of several equal numbers an index names is not for us to say
        single = parts.answer(cast(values, torch.float32))
        if not all(bool(part.isfinite().all()) for part in single.values()):
            return None
        if parts.check is not None:
            return {} if parts.check(dict(single), dict(answer), values) is None else None
        found = _rounding(parts, exactly, values, answer, workload)
    except Exception:  # the user's functions may refuse what they never asked for, in any way
        return None
    return None if any(rounding.floor for rounding in found.values()) else found


def _takes(parts: Parts, exactly: Exactly, workload: Workload, signature: Signature) -> bool:
    """Does the operator take a derived workload, with plain numbers for an answer?"""
    try:
        values = _draw(parts, workload, seed=3)
        answer = exactly(values)
    except UsageError:
        return False
    scalars = {scalar.name: scalar.read(values) for scalar in signature.scalars}
    shapes = {name: tuple(value.shape) for name, value in {**values, **answer}.items() if not isinstance(value, int)}
    fits = all(
        shapes[argument.name] == tuple(dimension(length, scalars) for length in argument.shape)
        for argument in signature.arguments
        if argument.kind != "scalar"
    )
    return fits and all(bool(part.isfinite().all()) for part in answer.values())


def _shares(exactly: Exactly, values: Mapping[str, Any]) -> dict[str, float]:
    """By floating input, the share of elements that the answer depends on; 0 where there are no derivatives."""
    leaves = {name: value.double().requires_grad_() for name, value in values.items() if is_floating(value)}
    try:
        with torch.enable_grad():
            parts = [part for part in exactly({**values, **leaves}).values() if part.requires_grad]
            projected = sum((part * torch.randn_like(part)).sum() for part in parts)
        if not parts or not leaves:
            return dict.fromkeys(leaves, 0.0)
        assert isinstance(projected, torch.Tensor)
        grads = torch.autograd.grad(projected, list(leaves.values()), allow_unused=True)
    except (RuntimeError, UsageError):
        return dict.fromkeys(leaves, 0.0)
    counted = [0 if grad is None else int(torch.count_nonzero(grad)) for grad in grads]
    shares = [count / max(1, leaf.numel()) for count, leaf in zip(counted, leaves.values(), strict=True)]
    return {name: 1.0 if share == 1 else SOMETIMES * share for name, share in zip(leaves, shares, strict=True)}


def _least(known: Mapping[str, float], found: Mapping[str, float]) -> dict[str, float]:
    return {name: min(share, known.get(name, 1.0)) for name, share in found.items()}


def _draw(parts: Parts, workload: Workload, seed: int) -> dict[str, Any]:
    rng = torch.Generator().manual_seed(seed)
    return change(parts.draw(workload.sizes, getattr(torch, workload.dtype), rng), workload.values, rng)
