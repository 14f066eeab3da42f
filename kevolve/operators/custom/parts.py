"""Parts: what a definition holds once it has been run, and how its functions are called.

Whatever a user's function does wrong is a `UsageError` that names the function, the sizes and the line.
"""

from __future__ import annotations

import inspect
import linecache
import pickle
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import torch

from kevolve.errors import UsageError, nearest
from kevolve.operators.custom.definition import NEEDED, OPTIONAL, Definition

Values = Mapping[str, Any]  # a call's inputs by name: tensors and integers
Answer = dict[str, torch.Tensor]

FIXED_DTYPES = {torch.int32: "int32", torch.int64: "int64", torch.uint8: "uint8", torch.bool: "bool"}


@dataclass(frozen=True)
class Parts:
    """A user's functions. `parameters` are the reference's (and so the inputs), `sizes` those of make_inputs."""

    where: str
    reference: Callable[..., Any]
    make_inputs: Callable[..., Any]
    workloads: Any
    parameters: tuple[str, ...]
    optional: frozenset[str]
    sizes: tuple[str, ...]
    baselines: Mapping[str, Callable[..., Any]]
    oracle: Callable[..., Any] | None = None
    check: Callable[..., Any] | None = None
    cost: Callable[..., Any] | None = None

    def draw(self, sizes: Mapping[str, int], dtype: torch.dtype, rng: torch.Generator) -> dict[str, Any]:
        """Fresh inputs in the order of the reference's parameters, floating ones in `dtype`, on the device of `rng`.

        Raises UsageError.
        """
        at = f"make_inputs({', '.join(['rng', *(f'{name}={size}' for name, size in sizes.items())])})"
        made = self._call(at, lambda: self.make_inputs(rng, **sizes))
        if not isinstance(made, Mapping):
            raise UsageError(f"{self.where}: {at} must return a dict of inputs by name, not {type(made).__name__}.")
        for name in made:
            if name not in self.parameters:
                close = nearest(str(name), self.parameters)
                raise UsageError(f"{self.where}: {at} returns {name!r}, which is no parameter of reference.{close}")
        for name in self.parameters:
            if name not in made and name not in self.optional:
                raise UsageError(f"{self.where}: reference takes {name}, but {at} does not return it.")
        given = [name for name in self.parameters if name in made]
        return {name: self._input(f"{at} returns {name}", made[name], dtype, rng.device) for name in given}

    def answer(self, values: Values, function: Callable[..., Any] | None = None, title: str = "reference") -> Answer:
        """What the reference (or `function`) answers, by the names of the outputs. Raises UsageError."""
        shown = ", ".join(f"{name}: {_shown(value)}" for name, value in values.items())
        at = f"{title}({shown})"
        answer = self._call(at, lambda: call(function or self.reference, values))
        try:
            return named(answer)
        except TypeError as error:
            raise UsageError(
                f"{self.where}: {at} must return a tensor, a tuple or a dict of tensors ({error})."
            ) from None

    def _call(self, at: str, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except Exception as error:  # whatever a user's function raises
            raise UsageError(f"{self.where}: {at} raised {raised(error, self.where)}") from error

    def _input(self, at: str, value: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor | int:
        if type(value) is int:
            return value
        if not isinstance(value, torch.Tensor):
            kind = type(value).__name__
            raise UsageError(f"{self.where}: {at} as {kind}. An input is a tensor or an int: write torch.tensor(...).")
        if value.is_floating_point():
            return value.detach().to(device, dtype).contiguous()
        if value.dtype not in FIXED_DTYPES:
            listed = ", ".join(FIXED_DTYPES.values())
            raise UsageError(f"{self.where}: {at} in {value.dtype}. Inputs are floating point or {listed}.")
        return value.detach().to(device).contiguous()


def read_parts(definition: Definition) -> Parts:
    """Run a definition and look at what it holds. Raises UsageError."""
    held = _executed(definition) if definition.kind == "source" else _unpickled(definition)
    where = definition.where
    for name in NEEDED:
        if held.get(name) is None:
            raise UsageError(f"{where}: {name} is not defined.")
    for name in ("reference", "make_inputs", "oracle", "check", "cost"):
        if held.get(name) is not None and not callable(held[name]):
            raise UsageError(f"{where}: {name} must be a function, not {type(held[name]).__name__}.")
    baselines = held.get("baselines") or {}
    if not isinstance(baselines, Mapping) or not all(callable(function) for function in baselines.values()):
        raise UsageError(f'{where}: baselines must be functions by name, such as baselines = {{"mine": function}}.')
    parameters = _parameters(where, "reference", held["reference"])
    made_from = list(_parameters(where, "make_inputs", held["make_inputs"]))
    if not made_from:
        raise UsageError(f"{where}: make_inputs must take a torch.Generator first: def make_inputs(rng, ...).")
    optional = frozenset(name for name, is_optional in parameters.items() if is_optional)
    chosen = {name: held.get(name) for name in OPTIONAL if name in ("oracle", "check", "cost")}
    return Parts(
        where, held["reference"], held["make_inputs"], held["workloads"], tuple(parameters), optional,
        tuple(made_from[1:]), {str(name): function for name, function in baselines.items()}, **chosen,
    )  # fmt: skip


def call(function: Callable[..., Any], values: Values) -> Any:
    """The function on values in the order of the reference's parameters."""
    return function(*values.values())


def named(answer: Any) -> Answer:
    """The tensors of an answer by name: `out`, `out_1`, ... unless it names them. TypeError if it is something else."""
    if isinstance(answer, torch.Tensor):
        answer = {"out": answer}
    elif isinstance(answer, tuple | list):
        answer = {f"out_{place}" if place else "out": part for place, part in enumerate(answer)}
    if not isinstance(answer, Mapping) or not answer:
        raise TypeError(f"it returned {type(answer).__name__}")
    for name, part in answer.items():
        if not isinstance(part, torch.Tensor):
            raise TypeError(f"{name} is {type(part).__name__}")
        if not str(name).isidentifier():
            raise TypeError(f"{name!r} cannot name an output in C")
    return {str(name): part for name, part in answer.items()}


def is_floating(value: Any) -> bool:
    """Is it a tensor of floating point numbers?"""
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def on_cpu(values: Values) -> dict[str, Any]:
    """The values with tensors in this machine's memory: a user's own check or oracle may know no other."""
    return {name: value.cpu() if isinstance(value, torch.Tensor) else value for name, value in values.items()}


def cast(values: Values, dtype: torch.dtype) -> dict[str, Any]:
    """A copy of the values with floating tensors in `dtype`; no tensor is shared with the original."""
    return {
        name: (value.to(dtype, copy=True) if value.is_floating_point() else value.clone())
        if isinstance(value, torch.Tensor)
        else value
        for name, value in values.items()
    }


def raised(error: BaseException, where: str) -> str:
    """`ValueError: ... (line 7)`, where the line is the last one in the user's own file."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == where]
    first = (str(error).strip().splitlines() or ["no message"])[0]
    return f"{type(error).__name__}: {first[:300]}" + (f" (line {frames[-1].lineno})" if frames else "")


def _executed(definition: Definition) -> dict[str, Any]:
    """The names that a file defines. `sys.modules` and `linecache` know it: torch.compile and tracebacks look there."""
    text = definition.content.decode()
    module = ModuleType(f"kevolve_given_{definition.name}")
    module.__file__ = definition.where
    sys.modules[module.__name__] = module
    linecache.cache[definition.where] = (len(text), None, text.splitlines(keepends=True), definition.where)
    try:
        exec(compile(text, definition.where, "exec"), vars(module))
    except Exception as error:
        alone = " The file travels alone: it may import installed packages only." * isinstance(error, ImportError)
        raise UsageError(f"{definition.where}: running it raised {raised(error, definition.where)}.{alone}") from error
    return vars(module)


def _unpickled(definition: Definition) -> dict[str, Any]:
    """The functions that were pickled. Their globals get a module of their own: torch.compile looks for it by name."""
    held: dict[str, Any] = pickle.loads(definition.content)
    pending: list[Any] = [*held.values(), *(held.get("baselines") or {}).values()]
    seen: set[int] = set()
    while pending:
        function = pending.pop()
        namespace = function.__globals__ if isinstance(function, FunctionType) else None
        if namespace is None or id(namespace) in seen:
            continue
        if vars(sys.modules.get(function.__module__, ModuleType("none"))) is namespace:
            continue  # an installed package's
        module = ModuleType(f"kevolve_given_{definition.name}_{len(seen)}")
        seen.add(id(namespace))
        namespace["__name__"] = module.__name__
        vars(module).update(namespace)
        sys.modules[module.__name__] = module
        pending += namespace.values()
    return held


def _parameters(where: str, title: str, function: Callable[..., Any]) -> dict[str, bool]:
    """A function's parameters in order, and whether each may be left out."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise UsageError(f"{where}: {title} has no parameters to see. Write it as `def {title}(...)`.") from None
    found = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise UsageError(
                f"{where}: {title} has the parameter {parameter}. Give each a name and no star: def {title}(x, y)."
            )
        found[name] = parameter.default is not parameter.empty
    return found


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return str(value)
