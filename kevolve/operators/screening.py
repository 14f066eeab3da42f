"""Screening: is an operator's check worth anything on a workload? A search would only find what the check lets pass.

No workload is admitted on which an answer would pass that took no honest work (zeros, a constant, an input), that is
nearly right, or that was accumulated in half precision, or on which honest float32 arithmetic would not pass. Works
for every operator; what only a user's own functions can get wrong is looked for in `custom/screening.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from kevolve.operators.checks import SMALLEST
from kevolve.operators.coarse import Coarse
from kevolve.operators.fakes import Fake, fakes, in_dtype
from kevolve.operators.operator import Inputs, Operator, Outputs, Workload

HALVES = {"float32": (torch.bfloat16, torch.float16), "bfloat16": (torch.bfloat16,)}
ENOUGH_ELEMENTS = 64  # one number may be right by luck; so many are not
MOST_DRAWS = 8
LARGE = 1 << 17  # elements; of a call that is larger a part is screened that is complete in itself
PARTS = 4  # of which the largest is taken: it is not the one whose rows happen to be empty
FEWEST_ROWS = 5  # in every tensor of a part: in a single row, what is done with many does not show
FEW = 8.0  # honest roundings; what is nearer than that to the right answer is no fake


def weakness(operator: Operator) -> str:
    """What is wrong with the operator's check on some workload, in words; empty if nothing is."""
    with torch.no_grad():
        return next(filter(None, (weakness_on(operator, workload) for workload in operator.workloads)), "")


def weakness_on(operator: Operator, workload: Workload) -> str:
    """The same for one workload."""
    call = _drawn(operator, workload, seed=3)
    if not call.elements:
        return ""
    if wrong := call.mismatch(call.expected):
        return f"its check does not take the right answer on {workload.name}: {wrong}"
    if wrong := call.mismatch(call.honest):
        return f"the reference itself, computed in float32, does not pass its check on {workload.name}: {wrong}"
    for fake in fakes(operator, workload, call.given, call.right):
        if call.is_fooled(fake):
            return f"{fake.what} would pass its check on {workload.name}."
    for half in _passing_halves(call):
        name = str(half).removeprefix("torch.")
        return f"the reference computed in {name} would pass its check on {workload.name}, which is {workload.dtype}."
    return ""


@dataclass(frozen=True)
class ScreenedCall:
    """One call's inputs and the right answer to them."""

    operator: Operator
    workload: Workload
    given: Inputs
    expected: Outputs

    @property
    def elements(self) -> int:
        """Of all outputs together."""
        return sum(part.numel() for part in self.expected.values())

    @cached_property
    def right(self) -> Outputs:
        """The right answer as a program gives it."""
        return in_dtype(self.operator, self.workload, self.expected)

    @cached_property
    def honest(self) -> Outputs:
        """What float32 arithmetic answers, before it is rounded to the workload's dtype."""
        return self.computed_in(torch.float32)

    @cached_property
    def nearness(self) -> Outputs:
        """float64, by floating output: how near an answer is that differs by a few honest roundings only."""
        found = {}
        for name, part in self.expected.items():
            if self.right[name].is_floating_point():
                error = (self.honest[name].double() - part.double()).abs_().nan_to_num_(0, 0, 0)
                rounding = part.double().abs() * torch.finfo(self.right[name].dtype).eps
                found[name] = FEW * (error + rounding) + SMALLEST
        return found

    def computed_in(self, dtype: torch.dtype) -> Outputs:
        """The oracle's answer on a machine that has no finer numbers than `dtype`."""
        with Coarse(dtype):
            return self.operator.oracle(self.given)

    def mismatch(self, answer: Outputs) -> str:
        """What the operator's check says of an answer, in words; empty if it takes it."""
        found = self.operator.check(
            self.workload, in_dtype(self.operator, self.workload, answer), self.expected, self.given
        )
        return f"{found.reason} {found.detail}" if found is not None else ""

    def is_near(self, answer: Outputs) -> bool:
        """Is the answer right but for a few honest roundings?"""
        return all(self._is_near(name, answer[name]) for name in self.expected)

    def _is_near(self, name: str, got: torch.Tensor) -> bool:
        if name not in self.nearness:
            return torch.equal(got, self.right[name])
        actual, wanted = got.double(), self.right[name].double()
        near = (actual - self.expected[name].double()).abs_() <= self.nearness[name]
        return bool((near | (actual == wanted) | (actual.isnan() & wanted.isnan())).all())

    def is_fooled(self, fake: Fake) -> bool:
        """Does the check take a fake? One that happens to be right is none, but where a program is made fast."""
        must_be_wrong = fake.needs_no_work and self.workload.role != "adversarial"
        return not self.mismatch(fake.outputs) and (must_be_wrong or not self.is_near(fake.outputs))

    def is_fooled_by(self, half: torch.dtype) -> bool:
        """Does the check take what half precision computes? In bfloat16 that may be all that was to be had."""
        must_be_wrong = self.workload.dtype == "float32" and self.workload.role != "adversarial"
        answer = in_dtype(self.operator, self.workload, self.computed_in(half))
        return not self.mismatch(answer) and (must_be_wrong or not self.is_near(answer))


def _drawn(operator: Operator, workload: Workload, seed: int) -> ScreenedCall:
    """A call of the workload, or of a large one a part that is complete in itself: a share of its rows."""
    rng = torch.Generator().manual_seed(seed)
    given = operator.make_inputs(workload, rng)
    expected = operator.oracle(given)
    while (size := _size(given, expected)) > LARGE:
        parts = [operator.sample(given, expected, rng) for _ in range(PARTS)]
        part = max(parts, key=lambda part: _size(*part))
        if _size(*part) == size or min(map(len, part[0].tensors.values())) < FEWEST_ROWS:
            break
        given, expected = part
    return ScreenedCall(operator, workload, given, expected)


def _size(given: Inputs, answer: Outputs) -> int:
    return sum(part.numel() for part in (*given.tensors.values(), *answer.values()))


def _passing_halves(first: ScreenedCall) -> list[torch.dtype]:
    """The half precisions that pass on every draw, of which there are several if an answer is a few numbers only."""
    left, seen = list(HALVES.get(first.workload.dtype, ())), 0
    for seed in range(MOST_DRAWS):
        call = first if seed == 0 else _drawn(first.operator, first.workload, 3 + seed)
        left = [half for half in left if call.is_fooled_by(half)]
        seen += call.elements
        if seen >= ENOUGH_ELEMENTS or not left:
            break
    return left
