"""Interface: how a champion is called from Python, and how the arguments of the program follow from that.

A champion is called with the operator's input tensors, and with those integers only that no shape tells. Everything
here becomes text of an exported package: expressions of its own Python code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kevolve.operators.custom.operator import CustomOperator
from kevolve.operators.operator import Argument, Operator

Form = Literal["tensor", "tuple", "dict"]


@dataclass(frozen=True)
class Interface:
    """`parameters` by name, in order: is it a tensor (else an int)? `scalars` gives each one's Python expression.

    `arguments` are those of the program. `form` is what a call returns when the operator has these outputs.
    """

    name: str
    parameters: Mapping[str, bool]
    scalars: Mapping[str, str]
    arguments: tuple[Argument, ...]
    form: Form

    @property
    def tensors(self) -> list[Argument]:
        """The input tensors, in the order of the parameters."""
        inputs = {argument.name: argument for argument in self.arguments if argument.kind == "input"}
        return [inputs[name] for name, is_tensor in self.parameters.items() if is_tensor]

    @property
    def outputs(self) -> list[Argument]:
        return [argument for argument in self.arguments if argument.kind == "output"]

    @property
    def typed(self) -> str:
        """`values: torch.Tensor, max_length: int`: parameters as a definition has them."""
        return ", ".join(
            f"{name}: {'torch.Tensor' if is_tensor else 'int'}" for name, is_tensor in self.parameters.items()
        )

    @property
    def named(self) -> str:
        """`values, max_length`: arguments as a call has them."""
        return ", ".join(self.parameters)

    @property
    def called(self) -> str:
        """`out = jagged_sum(values, offsets)`: a whole call."""
        return f"{self.result} = {self.name}({self.named})"

    @property
    def result(self) -> str:
        """What a call's answer is assigned to."""
        if self.form == "dict":
            return "answers"
        names = ", ".join(output.name for output in self.outputs)
        return names + "," * (self.form == "tuple" and len(self.outputs) == 1)


def interface_of(operator: Operator) -> Interface:
    """How a champion of `operator` is called."""
    if isinstance(operator, CustomOperator):
        return _own(operator)
    inputs = [argument for argument in operator.arguments if argument.kind == "input"]
    scalars = {a.name: _read(a.name, inputs) for a in operator.arguments if a.kind == "scalar"}
    parameters = {argument.name: True for argument in inputs}
    parameters |= {name: False for name, expression in scalars.items() if expression == name}
    outputs = [argument for argument in operator.arguments if argument.kind == "output"]
    return Interface(operator.name, parameters, scalars, operator.arguments, "tensor" if len(outputs) == 1 else "tuple")


def dimensions(argument: Argument) -> str:
    """The argument's shape as a tuple of Python expressions of `_sizes`: `(_sizes.batch + 1, _sizes.dim)`."""
    shape = [_expression(length) for length in argument.shape]
    return f"({', '.join(shape)}{',' * (len(shape) == 1)})"


def _own(operator: CustomOperator) -> Interface:
    tensors = {argument.name for argument in operator.arguments if argument.kind == "input"}
    scalars = {}
    for scalar in operator.facts.scalars:
        read = f"{scalar.tensor}.shape[{scalar.axis}]" + f" - {scalar.less}" * (scalar.less != 0)
        divided = f"({read}) // {scalar.factor}" if scalar.less else f"{read} // {scalar.factor}"
        scalars[scalar.name] = scalar.name if not scalar.tensor else divided if scalar.factor > 1 else read
    known = {*tensors, *(name for name, expression in scalars.items() if expression == name)}
    parameters = {name: name in tensors for name in operator.parts.parameters if name in known}
    return Interface(operator.name, parameters, scalars, operator.arguments, _form(operator))


def _form(operator: CustomOperator) -> Form:
    from kevolve.operators.custom.parts import call

    answer = call(operator.parts.reference, operator.values(operator.example()))
    return "dict" if isinstance(answer, Mapping) else "tuple" if isinstance(answer, Sequence) else "tensor"


def _read(name: str, inputs: Sequence[Argument]) -> str:
    """Where a scalar can be read; its own name where only the caller knows it."""
    for wanted, less in ((name, ""), (f"{name} + 1", " - 1")):
        for argument in inputs:
            if wanted in argument.shape:
                return f"{argument.name}.shape[{argument.shape.index(wanted)}]{less}"
    return name


def _expression(length: str) -> str:
    """A dimension such as `2 * dim // 2`, of which each factor is divided by itself, in Python's own order."""
    terms = []
    for term in length.split(" + "):
        factors = [f"({factor})" if " // " in factor else factor for factor in term.split(" * ")]
        terms.append(" * ".join(factors))
    return re.sub(r"[A-Za-z_]\w*", lambda found: f"_sizes.{found[0]}", " + ".join(terms))
