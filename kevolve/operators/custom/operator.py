"""A user's own operator behind the contract of every operator: what was not given is derived from the reference."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from kevolve.errors import UsageError
from kevolve.operators.checks import Exact, Within
from kevolve.operators.custom.arguments import smallest
from kevolve.operators.custom.contents import change
from kevolve.operators.custom.definition import Definition
from kevolve.operators.custom.facts import Facts, exactly_of, find_facts
from kevolve.operators.custom.parts import Answer, call, is_floating, named, on_cpu, raised, read_parts
from kevolve.operators.custom.tolerance import ExactAnswer, allowed
from kevolve.operators.operator import Baseline, Cost, Inputs, Mismatch, Operator, Outputs, Workload


class CustomOperator(Operator):
    """An operator made from a definition. Floating tensors are `value` arguments, others keep their dtype.

    Raises UsageError where the definition does not do as it must; `facts` are found on the way unless it has them.
    """

    def __init__(self, definition: Definition):
        self.definition = definition
        self.parts = read_parts(definition)
        self.facts: Facts = definition.facts or find_facts(self.parts)
        super().__init__(self.facts.workloads)
        self.name = definition.name  # type: ignore[misc]
        self.arguments = self.facts.arguments  # type: ignore[misc]
        self.sizes = self.parts.sizes  # type: ignore[misc]
        self.exactly = exactly_of(self.parts)
        self.draws_on_device = True

    def make_inputs(self, workload: Workload, rng: torch.Generator, device: str = "cpu") -> Inputs:
        """See `Operator`. Where tensors lie in memory is for whoever places them: they are contiguous here."""
        with torch.no_grad():
            values = self._drawn(workload, rng, device)
        tensors = {name: value.to(device) for name, value in values.items() if isinstance(value, torch.Tensor)}
        return Inputs(tensors, self.scalars(values))

    def _drawn(self, workload: Workload, rng: torch.Generator, device: str) -> dict[str, Any]:
        """On the device where make_inputs can: on the CPU that takes longer there than to judge a program."""
        dtype: torch.dtype = getattr(torch, workload.dtype)
        if device != "cpu" and self.draws_on_device:
            try:
                there = torch.Generator(device).manual_seed(int(torch.randint(1 << 62, (), generator=rng)))
                with torch.device(device):
                    return change(self.parts.draw(workload.sizes, dtype, there), workload.values, there)
            except (UsageError, RuntimeError):  # it names the CPU, or has tensors there
                self.draws_on_device = False
        return change(self.parts.draw(workload.sizes, dtype, rng), workload.values, rng)

    def odd(self, workload: Workload, chooser: random.Random) -> list[Workload]:
        """Every content that the reference took at a small size; none where float32 is known to be rough."""
        if any(rounding.floor for rounding in self.facts.rounding[workload.name].values()):
            return []
        return [
            replace(workload, name=workload.name + _odd_ending(content), role="adversarial", values=content)
            for content in self.facts.contents
        ]

    def example(self) -> Inputs:
        """Inputs of the smallest search workload in float32, to trace the reference with."""
        workload = smallest([workload for workload in self.workloads if workload.role == "search"])
        return self.make_inputs(replace(workload, dtype="float32"), torch.Generator().manual_seed(0))

    def scalars(self, values: Mapping[str, Any]) -> dict[str, int]:
        """The scalar arguments of a call with these inputs."""
        return {scalar.name: scalar.read(values) for scalar in self.facts.scalars}

    def values(self, inputs: Inputs) -> dict[str, Any]:
        """What the reference is called with, in the order of its parameters."""
        known = {**inputs.scalars, **inputs.tensors}
        return {name: known[name] for name in self.parts.parameters if name in known}

    def oracle(self, inputs: Inputs) -> Outputs:
        """The reference in float64, unless an oracle was given."""
        with torch.no_grad():
            return ExactAnswer(self.exactly(self.values(inputs)))

    def baselines(self, device: str) -> Mapping[str, Baseline]:
        """Eager and compiled; in float32, too, if there are bfloat16 workloads, on which bfloat16 sums may be wrong."""
        reference = self.parts.reference
        found = {"eager": self._baseline(reference), "compiled": self._baseline(_compiled(reference))}
        if any(workload.dtype != "float32" for workload in self.workloads):

            def wide(*values: Any) -> Answer:
                return named(reference(*(v.float() if is_floating(v) else v for v in values)))

            found |= {"eager_float32": self._baseline(wide), "compiled_float32": self._baseline(_compiled(wide))}
        return found | {name: self._baseline(function) for name, function in self.parts.baselines.items()}

    def cost(self, inputs: Inputs) -> Cost:
        """The outputs, and as much of every input as the answer depends on. It must never be too much.

        Integer inputs count if all of every floating input matters: otherwise part of them may not, either. A
        reference's own operation count is no lower bound, since products can be reordered: it is 0 unless given.
        """
        values = self.values(inputs)
        if self.parts.cost is not None:
            moved, flops = call(self.parts.cost, values)
            return Cost(int(moved), int(flops))
        dtypes = {tensor.dtype for tensor in inputs.tensors.values() if tensor.is_floating_point()}
        value_size = max((dtype.itemsize for dtype in dtypes), default=4)
        sizes = {"value": value_size, "int32": 4, "int64": 8, "uint8": 1, "bool": 1}
        counts = self.shapes(inputs.scalars)
        moved = 0.0
        whole = all(share == 1 for share in self.facts.shares.values())
        for argument in self.arguments:
            if argument.kind == "scalar":
                continue
            share = 1.0 if argument.kind == "output" else self.facts.shares.get(argument.name, float(whole))
            moved += share * sizes[argument.dtype] * torch.Size(counts[argument.name]).numel()
        return Cost(int(moved), 0)

    def check(self, workload: Workload, outputs: Outputs, expected: Outputs, inputs: Inputs) -> Mismatch | None:
        """The user's check, or: integers exact, numbers within what tolerance.py allows."""
        if mismatch := self._check_form(workload, outputs, inputs):
            return mismatch
        if self.parts.check is not None:
            return self._check_as_given(outputs, expected, inputs)
        for name, wanted in expected.items():
            if not wanted.is_floating_point():
                mismatch = _check_integers(name, outputs[name], wanted)
            else:
                mismatch = self._check_numbers(workload, name, outputs[name], expected, inputs)
            if mismatch:
                return mismatch
        return None

    def _check_numbers(
        self, workload: Workload, name: str, got: torch.Tensor, expected: Outputs, inputs: Inputs
    ) -> Mismatch | None:
        """One floating output. Its sensitivity is only asked for where the answer's own size does not explain it."""
        usual = workload.name.removesuffix(_odd_ending(workload.values))
        wanted, rounding = expected[name], self.facts.rounding[usual][name]
        certain = allowed(wanted, None, rounding.terms, rounding.floor, got.dtype)
        if Within(wanted, certain).differs(name, got) is None:
            return None
        answer = expected if isinstance(expected, ExactAnswer) else ExactAnswer(expected)
        sensitivity = answer.sensitivity(self.exactly, self.values(inputs))[name]
        tolerance = allowed(wanted, sensitivity, rounding.terms, rounding.floor, got.dtype)
        return Within(wanted, tolerance).differs(name, got)

    @property
    def version(self) -> str:
        """Changes with the definition, with this room's code, and with the workloads that come of both."""
        room = Path(__file__).parent
        code = b"".join(file.read_bytes() for file in (*sorted(room.glob("*.py")), room.parent / "checks.py"))
        workloads = json.dumps([asdict(workload) for workload in self.workloads], sort_keys=True, default=dict)
        return hashlib.sha256(self.definition.content + code + workloads.encode()).hexdigest()[:12]

    def _baseline(self, function: Any) -> Baseline:
        def run(inputs: Inputs) -> Outputs:
            values = self.values(inputs)
            answer = named(call(function, values))
            dtype = next((v.dtype for v in inputs.tensors.values() if v.is_floating_point()), torch.float32)
            return {n: part.to(dtype) if part.is_floating_point() else part for n, part in answer.items()}

        return run

    def _check_form(self, workload: Workload, outputs: Outputs, inputs: Inputs) -> Mismatch | None:
        """Exactly the outputs that there are, in their shapes and dtypes."""
        shapes = self.output_shapes(inputs)
        if set(outputs) != set(shapes):
            return Mismatch("the outputs have other names", f"expected {sorted(shapes)}, got {sorted(outputs)}")
        for argument in self.arguments:
            if argument.kind != "output":
                continue
            got, shape = outputs[argument.name], shapes[argument.name]
            dtype = getattr(torch, workload.dtype if argument.dtype == "value" else argument.dtype)
            if tuple(got.shape) != shape or got.dtype != dtype:
                return Mismatch(
                    f"{argument.name} has the wrong shape or dtype",
                    f"expected {list(shape)} of {dtype}, got {list(got.shape)} of {got.dtype}",
                )
        return None

    def _check_as_given(self, outputs: Outputs, expected: Outputs, inputs: Inputs) -> Mismatch | None:
        assert self.parts.check is not None
        try:
            with torch.no_grad():  # on the CPU, where it was tried
                said = self.parts.check(on_cpu(outputs), on_cpu(expected), on_cpu(self.values(inputs)))
        except Exception as error:  # whatever a user's function raises
            where = self.parts.where
            raise UsageError(f"{where}: check(outputs, expected, inputs) raised {raised(error, where)}.") from error
        if said is not None and not isinstance(said, str):
            raise UsageError(f"{self.parts.where}: check must return None or what is wrong, not {said!r}.")
        return Mismatch(said) if said is not None else None


def _odd_ending(content: str) -> str:
    return f" with {content} values"


def _check_integers(name: str, got: torch.Tensor, expected: torch.Tensor) -> Mismatch | None:
    """Equal, element by element."""
    actual = got.to(expected.device)
    if torch.equal(actual, expected):
        return None
    return Exact(expected.double()).differs(name, actual.double())


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """By torch.compile, whose import alone takes seconds: only when it is called, which is in the baseline process."""
    made = cache(lambda: torch.compile(function, dynamic=True))
    return lambda *values: made()(*values)
