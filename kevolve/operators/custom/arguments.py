"""Arguments: what a C++ program of a user's operator is called with, found by making inputs of many sizes.

A dimension of a tensor must be known to the program by a name or a number: the size that it equals in every trial,
else a constant, else an expression of sizes (`rows + 1`, `2 * half`, `dim // 2`), else a scalar argument of its own
(`x_0`). A program is told what the reference can see and nothing more, so that a champion can be called like it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kevolve.errors import UsageError
from kevolve.operators.custom.parts import FIXED_DTYPES, Answer, Parts
from kevolve.operators.operator import Argument, Workload

PRIMES = (5, 7, 11, 13, 17, 19, 23, 29)
MULTIPLES = range(2, 17)


@dataclass(frozen=True)
class Scalar:
    """Where a scalar argument is read: `(tensors[tensor].shape[axis] - less) / factor`, or the input of its name."""

    name: str
    tensor: str = ""
    axis: int = 0
    less: int = 0
    factor: int = 1

    def read(self, values: Mapping[str, Any]) -> int:
        """Its value in a call with these inputs."""
        if not self.tensor:
            return int(values[self.name])
        return int(values[self.tensor].shape[self.axis] - self.less) // self.factor


@dataclass(frozen=True)
class Trial:
    """One call of the reference: what was asked for, what went in, and what came out."""

    sizes: Mapping[str, int]
    values: Mapping[str, Any]
    answer: Answer


@dataclass(frozen=True)
class Signature:
    """The arguments in the order of the C function, and where its scalars come from."""

    arguments: tuple[Argument, ...]
    scalars: tuple[Scalar, ...]


def find_signature(parts: Parts, workloads: Sequence[Workload]) -> Signature:
    """The arguments of a program that computes what the reference does. UsageError for what cannot be expressed."""
    trials = list(_trials(parts, workloads))
    dimensions = _Dimensions(parts, trials)
    inputs = dimensions.inputs()
    outputs = dimensions.outputs()
    scalars = dimensions.scalars()
    names = [argument.name for argument in (*inputs, *outputs)] + [scalar.name for scalar in scalars]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(
            f"{parts.where}: {', '.join(twice)} names two of inputs, outputs and sizes. Rename a parameter of reference"
            " or make_inputs, or return a dict of outputs."
        )
    told = [Argument(scalar.name, "scalar", "int64") for scalar in scalars]
    return Signature((*inputs, *outputs, *told), tuple(scalars))


def _trials(parts: Parts, workloads: Sequence[Workload]) -> Iterator[Trial]:
    """Every workload, and small calls of other sizes wherever the user's functions take them."""
    rng = torch.Generator().manual_seed(1)
    for workload in workloads:
        values = parts.draw(workload.sizes, torch.float32, rng)
        yield Trial(workload.sizes, values, parts.answer(values))
    for sizes in probes(workloads):
        try:
            values = parts.draw(sizes, torch.float32, rng)
            yield Trial(sizes, values, parts.answer(values))
        except UsageError:  # only the user's own workloads have to work
            continue


def probes(workloads: Sequence[Workload]) -> list[dict[str, int]]:
    """Sizes that tell dimensions apart: all different, even ones, multiples of 8, and one changed at a time."""
    least = smallest(workloads).sizes
    different = [dict(zip(least, itertools.cycle(row), strict=False)) for row in _rows()]
    return [*different, *({**least, name: 2 * size} for name, size in least.items() if size <= 4096)]


def smallest(workloads: Sequence[Workload]) -> Workload:
    """The workload with the smallest product of sizes."""

    def product(workload: Workload) -> int:
        found = 1
        for size in workload.sizes.values():
            found *= max(size, 1)
        return found

    return min(workloads, key=product)


def _rows() -> Iterator[list[int]]:
    for factor in (1, 2, 8):
        yield [factor * prime for prime in PRIMES]
        yield [factor * prime for prime in reversed(PRIMES)]


class _Dimensions:
    """Finds an expression for each dimension. Scalars are the sizes that inputs show, integer inputs, and new ones."""

    def __init__(self, parts: Parts, trials: Sequence[Trial]) -> None:
        self.parts = parts
        self.trials = trials
        first = trials[0]
        self.tensors = [name for name, value in first.values.items() if isinstance(value, torch.Tensor)]
        self.integers = [name for name in first.values if name not in self.tensors]
        self.seen: dict[str, Scalar] = {name: Scalar(name) for name in self.integers}
        self.new: dict[str, Scalar] = {}
        for name in self.tensors:
            ranks = {trial.values[name].dim() for trial in trials}
            if len(ranks) > 1:
                raise UsageError(f"{parts.where}: {name} has {min(ranks)} or {max(ranks)} dimensions. Let it have one.")

    def inputs(self) -> list[Argument]:
        """The tensor inputs, in the order of the reference's parameters."""
        places = [(name, axis) for name in self.tensors for axis in range(self.trials[0].values[name].dim())]
        found: dict[tuple[str, int], str] = {}
        for place in places:  # sizes first: what they are is needed to say what the others are made of
            if expression := self._size(place):
                found[place] = expression
        for place in places:
            if place not in found:
                found[place] = self._known(self._lengths(place)) or self._fresh(place)
        return [
            Argument(name, "input", self._dtype(name, [trial.values[name] for trial in self.trials]), tuple(
                found[name, axis] for axis in range(self.trials[0].values[name].dim())
            ))
            for name in self.tensors
        ]  # fmt: skip

    def outputs(self) -> list[Argument]:
        """The outputs, in the order that the reference returns them."""
        made = []
        for name in self.trials[0].answer:
            answers = [trial.answer.get(name) for trial in self.trials]
            tensors = [tensor for tensor in answers if tensor is not None]
            if len(tensors) < len(answers) or len({tensor.dim() for tensor in tensors}) > 1:
                raise UsageError(f"{self.parts.where}: the output {name} is not the same on all workloads.")
            shape = [self._explained(name, axis, tensors) for axis in range(tensors[0].dim())]
            made.append(Argument(name, "output", self._dtype(name, tensors), tuple(shape)))
        return made

    def scalars(self) -> list[Scalar]:
        """Sizes in the order of make_inputs, other integer inputs, then those that only tensors show."""
        sizes = [self.seen[name] for name in self.parts.sizes if name in self.seen]
        others = [scalar for name, scalar in self.seen.items() if name not in self.parts.sizes]
        return [*sizes, *others, *self.new.values()]

    def _lengths(self, place: tuple[str, int]) -> list[int]:
        return [int(trial.values[place[0]].shape[place[1]]) for trial in self.trials]

    def _size(self, place: tuple[str, int]) -> str:
        """The dimension as a size, one more, or a multiple of one; then the size is one that can be read here."""
        lengths = self._lengths(place)
        relations = [(0, 1), (1, 1), *((0, factor) for factor in MULTIPLES)]
        for less, factor in relations:
            for name in self.parts.sizes:
                if all(length == factor * trial.sizes[name] + less for length, trial in self._pairs(lengths)):
                    self.seen.setdefault(name, Scalar(name, *place, less, factor))
                    return f"{factor} * {name}" if factor > 1 else f"{name} + {less}" if less else name
            if len(set(lengths)) == 1 and (less, factor) == (0, 1):
                return str(lengths[0])
        return ""

    def _pairs(self, lengths: Sequence[int]) -> Iterator[tuple[int, Trial]]:
        return zip(lengths, self.trials, strict=True)

    def _known(self, lengths: Sequence[int]) -> str:
        """The lengths as an expression of scalars that there are already; empty if none fits."""
        scalars = {**self.seen, **self.new}
        values = {name: [scalar.read(trial.values) for trial in self.trials] for name, scalar in scalars.items()}
        wanted = list(lengths)
        for name, column in values.items():
            if column == wanted:
                return name
        if len(set(wanted)) == 1:
            return str(wanted[0])
        for name, column in values.items():
            if [value + 1 for value in column] == wanted:
                return f"{name} + 1"
            for factor in MULTIPLES:
                if [factor * value for value in column] == wanted:
                    return f"{factor} * {name}"
                if column == [factor * length for length in wanted]:
                    return f"{name} // {factor}"
        for (one, left), (two, right) in itertools.combinations_with_replacement(values.items(), 2):
            if [a * b for a, b in zip(left, right, strict=True)] == wanted:
                return f"{one} * {two}"
            if [a + b for a, b in zip(left, right, strict=True)] == wanted:
                return f"{one} + {two}"
        return ""

    def _fresh(self, place: tuple[str, int]) -> str:
        name = f"{place[0]}_{place[1]}"
        self.new[name] = Scalar(name, *place)
        return name

    def _explained(self, name: str, axis: int, tensors: Sequence[torch.Tensor]) -> str:
        lengths = [int(tensor.shape[axis]) for tensor in tensors]
        expression = self._known(lengths)
        if not expression:
            trial = self.trials[0]
            raise UsageError(
                f"{self.parts.where}: dimension {axis} of the output {name} follows from no dimension of an input (with"
                f" {dict(trial.sizes)} it is {lengths[0]}).\n  A program has to know it beforehand: return a tensor"
                " whose shape follows from those of the inputs, or give reference an int for it."
            )
        return expression

    def _dtype(self, name: str, tensors: Sequence[torch.Tensor]) -> str:
        """`value` for floating tensors, which have the workload's dtype."""
        if all(tensor.is_floating_point() for tensor in tensors):
            return "value"
        dtypes = {tensor.dtype for tensor in tensors}
        if len(dtypes) > 1 or tensors[0].dtype not in FIXED_DTYPES:
            found, allowed = ", ".join(map(str, sorted(dtypes, key=str))), ", ".join(FIXED_DTYPES.values())
            raise UsageError(f"{self.parts.where}: {name} is {found}. It may be floating point or {allowed}.")
        return FIXED_DTYPES[tensors[0].dtype]
