"""The operator contract: what is computed, on which workloads, and how an answer is checked.

An operator is one file (`kevolve/operators/<family>/<operator>.py`, a class that subclasses
`Operator`) and one configuration file (`conf/operator/<operator>.yaml`, its workloads). The oracle is
slow on purpose: everything else is measured against it, so it must be obviously right.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    import random

    import torch

    from kevolve.verdict import Cache, Role

Outputs = Mapping[str, "torch.Tensor"]
Baseline = Callable[["Inputs"], Outputs]
Fill = Callable[["torch.Tensor", "torch.Generator"], object]


@dataclass(frozen=True)
class Workload:
    """One concrete size, dtype, layout and length distribution of an operator.

    `sizes` names the operator's dimensions (for jagged operators `batch`, `max_length`, `dim`);
    `lengths` and `values` name a regime of `inputs.py`; `layout` is `contiguous`, `strided` (the last
    dimension of every input skips each second element) or `misaligned` (every base address is offset by
    one element); `cache` is `warm` (the inputs of a whole block of calls have just been written by another process, so
    what does not fit in the last cache comes from memory) or `cold` (caches are flushed before every timed call);
    `weight` is the share of the user's traffic it stands for.
    """

    name: str
    role: Role
    sizes: Mapping[str, int]
    dtype: str = "float32"
    index_dtype: str = "int64"
    lengths: str = "uniform"
    values: str = "normal"
    layout: str = "contiguous"
    cache: Cache = "warm"
    weight: float = 1.0


@dataclass(frozen=True)
class Argument:
    """One argument of a program's entry point, in call order.

    `dtype` is `value` or `index` (both set per workload), or a fixed name such as `int64`. `shape` gives the
    dimensions as integers or as names of scalar arguments, `batch + 1`, `2 * dim` and `dim // 2` included.
    """

    name: str
    kind: Literal["input", "output", "scalar"]
    dtype: str
    shape: tuple[str, ...] = ()
    meaning: str = ""


@dataclass(frozen=True)
class Inputs:
    """One call's inputs: tensors and scalars by the names of the operator's arguments.

    Every name is also an attribute: `inputs.offsets`, `inputs.batch`.
    """

    tensors: Mapping[str, torch.Tensor]
    scalars: Mapping[str, int]

    def __getattr__(self, name: str) -> Any:
        for group in ("tensors", "scalars"):
            values = self.__dict__.get(group, {})
            if name in values:
                return values[name]
        raise AttributeError(f"no input named {name!r}")


@dataclass(frozen=True)
class Cost:
    """The least work that an answer takes: bytes that must move, arithmetic operations."""

    bytes: int
    flops: int


@dataclass(frozen=True)
class Mismatch:
    """Why an answer is wrong, in one sentence, and the first wrong element with expected and got."""

    reason: str
    detail: str = ""


class Operator(ABC):
    """What is computed. Subclasses set the class variables and implement the abstract methods.

    `sizes` are the names that a workload's `sizes` must give, all of them and no others.
    """

    name: ClassVar[str]
    arguments: ClassVar[tuple[Argument, ...]]
    sizes: ClassVar[tuple[str, ...]]
    odd_everywhere: ClassVar[tuple[str, ...]] = ()  # values of `odd` to try at every size: the hardest to notice

    def __init__(self, workloads: tuple[Workload, ...]):
        self.workloads = workloads

    @abstractmethod
    def make_inputs(self, workload: Workload, rng: torch.Generator, device: str = "cpu") -> Inputs:
        """Fresh inputs for `workload`; every call draws new content from `rng`."""

    def draw_scalars(self, workload: Workload, rng: torch.Generator) -> Mapping[str, int]:
        """The scalars of a call of `workload`, without its tensors where that is cheaper."""
        return self.make_inputs(workload, rng).scalars

    def capacity(self, workload: Workload) -> dict[str, int] | None:
        """The most elements that each tensor argument, input or output, can ever have: what memory to set aside.

        None if that is not known before inputs are made.
        """
        return None

    def odd(self, workload: Workload, chooser: random.Random) -> list[Workload]:
        """The same sizes and dtypes with each kind of content that is hard to get right; never timed.

        `values` and the name tell what it is; what else varies is by `chooser`. Empty if the operator knows of none.
        """
        return []

    def source(self, inputs: Inputs, workload: Workload, pool: Callable[[Fill], torch.Tensor]) -> Inputs:
        """What `refresh` is to make the content of timed calls from, given a draw.

        `pool(fill)` gives many values in the workload's dtype, 1-D, as `fill` makes them in float32; the same ones
        for all workloads of the same `values` and dtype.
        """
        return inputs

    def refresh(
        self, inputs: Inputs, workload: Workload, rng: torch.Generator, into: Mapping[str, torch.Tensor] | None = None
    ) -> Inputs:
        """Other content of the same distribution, cheaply enough for every timed call.

        `inputs` come from `make_inputs(workload, ...)` or `source`; they stay as they are and may serve any number of
        calls. Sizes that are drawn (lengths) are drawn anew. `into` gives flat buffers of `capacity(workload)` elements
        by input name: the new tensors are then contiguous views of their beginnings.
        """
        fresh = self.make_inputs(workload, rng)
        if into is None:
            return fresh
        tensors = {
            name: into[name][: tensor.numel()].view(tensor.shape).copy_(tensor)
            for name, tensor in fresh.tensors.items()
        }
        return Inputs(tensors, fresh.scalars)

    @abstractmethod
    def oracle(self, inputs: Inputs) -> Outputs:
        """The right answer in float64 on the CPU, written as plainly as possible.

        An operator that only copies answers in the dtype of its inputs: every bit counts.
        """

    @abstractmethod
    def baselines(self, device: str) -> Mapping[str, Baseline]:
        """What a user has today, strongest known first. A library that is missing is simply absent."""

    @abstractmethod
    def cost(self, inputs: Inputs) -> Cost:
        """The least bytes and operations for these inputs (lengths are drawn, so not per workload)."""

    @abstractmethod
    def check(self, workload: Workload, outputs: Outputs, expected: Outputs, inputs: Inputs) -> Mismatch | None:
        """None if `outputs` (in the workload's dtype) agree with `expected`, the oracle's answer."""

    def checker(self, workload: Workload, inputs: Inputs) -> Callable[[Outputs], Mismatch | None]:
        """`check` for many answers to the same inputs: the oracle is asked once."""
        expected = self.oracle(inputs)
        return lambda outputs: self.check(workload, outputs, expected, inputs)

    def sample(
        self, inputs: Inputs, outputs: Outputs, rng: torch.Generator, most: int | None = None
    ) -> tuple[Inputs, Outputs]:
        """A random part of a call that is complete in itself, so that checking it costs less: here all of it.

        Where the parts are entries of a batch, no more than `most` of them.
        """
        return inputs, outputs

    def scattered(
        self, calls: Sequence[tuple[Inputs, Outputs]], rng: torch.Generator, numbers: int
    ) -> tuple[Inputs, Outputs] | None:
        """Random pieces of several calls, which differ in their content only, as one call complete in itself.

        About `numbers` input numbers in all, so that it costs little to check. None if calls cannot be taken to pieces.
        """
        return None

    def unseen(self, chooser: random.Random) -> list[Workload]:
        """Small workloads whose sizes nobody knows beforehand: a program is not to be right for known ones alone."""
        return []

    def shapes(self, scalars: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Shape of each tensor argument, input or output, by name, when the scalars have these values."""
        return {
            argument.name: tuple(dimension(d, scalars) for d in argument.shape)
            for argument in self.arguments
            if argument.kind != "scalar"
        }

    def output_shapes(self, inputs: Inputs) -> dict[str, tuple[int, ...]]:
        """Shape of each output for these inputs, by name."""
        shapes = self.shapes(inputs.scalars)
        return {argument.name: shapes[argument.name] for argument in self.arguments if argument.kind == "output"}

    @property
    def version(self) -> str:
        """Changes whenever the operator's code, what it builds on, or its workloads change: part of a verdict's key."""
        sources = [inspect.getsource(module) for module in _foundations(type(self).__module__)]
        workloads = json.dumps([asdict(w) for w in self.workloads], sort_keys=True, default=dict)
        return hashlib.sha256("\0".join([*sources, workloads]).encode()).hexdigest()[:12]


def _foundations(module_name: str) -> list[ModuleType]:
    """The module and every module of kevolve.operators that it takes names from, directly or not, by name."""
    found: dict[str, ModuleType] = {}
    pending = [module_name]
    while pending:
        name = pending.pop()
        if name in found or name not in sys.modules:
            continue
        found[name] = sys.modules[name]
        owners = (
            value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            for value in vars(found[name]).values()
        )
        pending += [owner for owner in owners if isinstance(owner, str) and owner.startswith("kevolve.operators.")]
    return [found[name] for name in sorted(found)]


def dimension(text: str, scalars: Mapping[str, int]) -> int:
    """`"batch"`, `"batch + 1"`, `"2 * dim"`, `"dim // 2"` or `"4"` as a number."""
    return sum(math.prod(_factor(factor, scalars) for factor in term.split(" * ")) for term in text.split(" + "))


def _factor(text: str, scalars: Mapping[str, int]) -> int:
    name, _, divisor = text.partition(" // ")
    return (scalars[name] if name in scalars else int(name)) // int(divisor or 1)
