"""A champion as a function: the compiled program, called like the reference it stands for.

It runs in this process and on this machine's CPU, so it is built here; a program has passed the judge by then.
"""

from __future__ import annotations

import ctypes
import inspect
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from kevolve.operators.custom.parts import call, is_floating

if TYPE_CHECKING:
    from kevolve.languages.language import Built
    from kevolve.operators.custom.operator import CustomOperator
    from kevolve.operators.operator import Argument
    from kevolve.program import Program


class Champion:
    """Takes what the reference takes and returns what it returns, without gradients.

    Tensors must be on the CPU, floating ones all of one dtype that the operator has workloads of. Raises TypeError or
    ValueError for others, and for shapes that do not fit together.
    """

    def __init__(self, operator: CustomOperator, program: Program, built: Built):
        self.operator = operator
        self.program = program
        self._functions = {
            variant.partition("-")[0]: _loaded(binary, built.entry) for variant, binary in built.binaries.items()
        }
        self._signature = inspect.signature(operator.parts.reference)
        example = call(operator.parts.reference, operator.values(operator.example()))
        self._form = type(example)

    def __call__(self, *arguments: Any, **named_arguments: Any) -> Any:
        """The answer, in new tensors."""
        bound = self._signature.bind(*arguments, **named_arguments).arguments
        values = {name: _plain(name, value) for name, value in bound.items()}
        dtype = self._check(values)
        scalars = self.operator.scalars(values)
        shapes = self.operator.shapes(scalars)
        tensors: dict[str, torch.Tensor] = {}
        for argument in self.operator.arguments:
            if argument.kind == "input":
                tensors[argument.name] = _fitting(argument, values[argument.name], shapes[argument.name])
            elif argument.kind == "output":
                made = dtype if argument.dtype == "value" else getattr(torch, argument.dtype)
                tensors[argument.name] = torch.empty(shapes[argument.name], dtype=made)
        self._functions[str(dtype).removeprefix("torch.")](
            *(
                ctypes.c_int64(scalars[argument.name])
                if argument.kind == "scalar"
                else ctypes.c_void_p(tensors[argument.name].data_ptr())
                for argument in self.operator.arguments
            )
        )
        outputs = {a.name: tensors[a.name] for a in self.operator.arguments if a.kind == "output"}
        return self._as_reference(outputs)

    def __repr__(self) -> str:
        return f"<champion {self.program.id} of {self.program.operator}>"

    def _check(self, values: Mapping[str, Any]) -> torch.dtype:
        """The dtype of the floating inputs. Raises TypeError for what the program was not built for."""
        wanted = {argument.name: argument for argument in self.operator.arguments if argument.kind == "input"}
        missing = [name for name in self.operator.parts.parameters if name not in values and name in wanted]
        if missing:
            raise TypeError(f"{', '.join(missing)} must be given")
        dtypes: set[torch.dtype] = {v.dtype for v in values.values() if is_floating(v)} or {torch.float32}
        shown = ", ".join(str(dtype).removeprefix("torch.") for dtype in sorted(dtypes, key=str))
        if shown not in self._functions:
            raise TypeError(f"inputs are {shown}; {self!r} is built for {' or '.join(self._functions)}")
        for name, value in values.items():
            is_tensor, fixed = isinstance(value, torch.Tensor), wanted[name].dtype if name in wanted else ""
            if is_tensor != (name in wanted):
                raise TypeError(f"{name} must be {'a tensor' if name in wanted else 'an int'}")
            if is_tensor and fixed != "value" and value.dtype != getattr(torch, fixed):
                raise TypeError(f"{name} must be {fixed}, not {value.dtype}")
        return dtypes.pop()

    def _as_reference(self, outputs: Mapping[str, torch.Tensor]) -> Any:
        if issubclass(self._form, torch.Tensor):
            return next(iter(outputs.values()))
        if issubclass(self._form, tuple | list):
            return tuple(outputs.values())
        return dict(outputs)


def build_champion(operator: CustomOperator, program: Program) -> Champion:
    """Compile `program` for this machine. RuntimeError if that is not possible here."""
    from kevolve.config import JudgeConfig
    from kevolve.devices.cpu import Cpu
    from kevolve.judge.prepare import prepare
    from kevolve.judge.sandbox.tiers import find_tier
    from kevolve.languages.language import Built

    settings = JudgeConfig()
    built = prepare(program, Cpu().target, find_tier(settings.sandbox), settings)
    if not isinstance(built, Built):
        raise RuntimeError(f"the champion could not be built here: {built.reason} {built.detail}")
    return Champion(operator, program, built)


def _loaded(content: bytes, entry: str) -> Any:
    # A name of its own: the loader takes a name that it has seen for the file that had it then.
    with tempfile.NamedTemporaryFile(prefix="kevolve-champion-", suffix=".so") as file:
        file.write(content)
        file.flush()
        function = ctypes.CDLL(file.name)[entry]
    function.restype = None
    return function


def _fitting(argument: Argument, tensor: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    if tuple(tensor.shape) != shape:
        wanted = f"[{', '.join(argument.shape)}], here {list(shape)}"
        raise ValueError(f"{argument.name} has the shape {list(tensor.shape)} and should have {wanted}")
    return tensor


def _plain(name: str, value: Any) -> Any:
    """A tensor as a program takes it: on the CPU, contiguous, and nobody's to differentiate."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.requires_grad and torch.is_grad_enabled():
        raise TypeError(f"{name} wants a gradient, which a champion does not have. Call it under torch.no_grad()")
    if value.device.type != "cpu":
        raise TypeError(f"{name} is on {value.device}, and the champion runs on the CPU")
    return value.detach().contiguous()
