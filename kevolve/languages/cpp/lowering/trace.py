"""From a PyTorch reference to a graph of ATen operations whose sizes are the names of scalar arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sympy
import torch
from torch._dynamo.source import ConstantSource
from torch._functorch.compile_utils import fx_graph_cse
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy.functions import Mod, PythonMod

from kevolve.languages.cpp.lowering.indices import Index, size
from kevolve.languages.cpp.lowering.unsupported import Unsupported
from kevolve.operators.operator import Argument, Inputs, dimension

SMALLEST = 2  # sizes 0 and 1 mean other things to a trace: broadcasting, emptiness


@dataclass(frozen=True)
class Trace:
    """The graph; the arguments behind its placeholders, in order; torch's symbols as sizes by argument name.

    `equal` are sizes that the reference needs to be the same, by the size that stands for both; `exact` are pairs of
    torch's expressions of which the first is a multiple of the second.
    """

    module: GraphModule
    placeholders: tuple[Argument, ...]
    sizes: Mapping[Any, Index]
    equal: Mapping[Index, Index]
    exact: frozenset[tuple[Any, Any]]


def trace(reference: Callable[..., Any], arguments: Sequence[Argument], example: Inputs) -> Trace:
    """Run the reference once on tensors without content whose sizes are symbols. Raises Unsupported."""
    environment = ShapeEnv(duck_shape=False)
    scalars = {
        argument.name: _symbol(environment, argument.name, max(int(example.scalars[argument.name]), SMALLEST))
        for argument in arguments
        if argument.kind == "scalar"
    }
    symbols = {value.node.expr: name for name, value in scalars.items()}
    taken = _taken(reference, arguments)
    with FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True):
        given = [scalars[a.name] if a.kind == "scalar" else _empty(a, scalars, example) for a in taken]
    names = [argument.name for argument in taken]

    def function(*values: Any) -> Any:
        return reference(**dict(zip(names, values, strict=True)))

    try:
        module = graph_of(function, given)
    except Exception as error:
        raise _refusal(error) from error
    _check_general(environment, symbols)
    sizes = {symbol: size(name) for symbol, name in symbols.items()}
    replaced = {sizes[s]: other.subs(sizes) for s, other in environment.replacements.items() if s in sizes}
    exact = frozenset(pair for guard in environment.guards for pair in _multiples(guard.expr))
    return Trace(module, tuple(taken), sizes, replaced, exact)


def _multiples(condition: Any) -> list[tuple[Any, Any]]:
    """(multiple, divisor) if the condition says just that."""
    is_exact = isinstance(condition, sympy.Eq) and condition.rhs == 0 and isinstance(condition.lhs, (Mod, PythonMod))
    return [tuple(condition.lhs.args)] if is_exact else []


def graph_of(function: Callable[..., Any], given: Sequence[Any], composite: bool = True) -> GraphModule:
    """The operations of a function on these tensors and sizes, none of which changes a tensor in place.

    `composite`: operations that are made of others stay whole, unless something is changed in place.
    """
    if composite:
        module = make_fx(function, tracing_mode="symbolic", pre_dispatch=True, _allow_non_fake_inputs=True)(*given)
        if not any(_is_mutation(node.target) for node in module.graph.nodes):
            return _without_repeats(module)
    pure = torch.func.functionalize(function, remove="mutations")
    return _without_repeats(make_fx(pure, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*given))


def _without_repeats(module: GraphModule) -> GraphModule:
    found = GraphModule(module, fx_graph_cse(module.graph))
    found.graph.eliminate_dead_code()
    return found


def _is_mutation(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def _symbol(environment: ShapeEnv, name: str, hint: int) -> Any:
    source = ConstantSource(name)
    symbol = environment.create_symbol(hint, source=source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None)
    return environment.create_symintnode(symbol, hint=hint, source=source)


def _taken(reference: Callable[..., Any], arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments that the reference takes, in its own order."""
    known = {argument.name: argument for argument in arguments if argument.kind != "output"}
    parameters = inspect.signature(reference).parameters.values()
    missing = [p.name for p in parameters if p.name not in known and p.default is inspect.Parameter.empty]
    if missing:
        raise Unsupported(f"the reference takes {', '.join(missing)}, which is no argument of the program; rename it")
    return [known[parameter.name] for parameter in parameters if parameter.name in known]


def _empty(argument: Argument, scalars: Mapping[str, Any], example: Inputs) -> Any:
    dtype = torch.float32 if argument.dtype == "value" else example.tensors[argument.name].dtype
    return torch.empty([dimension(text, scalars) for text in argument.shape], dtype=dtype)


def _check_general(environment: ShapeEnv, symbols: Mapping[Any, str]) -> None:
    """Refuse a trace that is right only for some sizes."""
    for symbol, value in environment.replacements.items():
        if symbol in symbols and not value.free_symbols:
            name = symbols[symbol]
            raise Unsupported(
                f"the reference computes this for {name} = {value} alone (by a Python loop over it, a condition on it, "
                f"or a tensor of fixed size beside it); write it without, or give all workloads the same {name}"
            )
    for guard in environment.guards:
        if _is_of_user(guard) and not _holds_generally(guard.expr, symbols):
            text = str(guard.expr)
            for symbol, name in symbols.items():
                text = text.replace(str(symbol), name)
            raise Unsupported(f"the reference computes something else unless {text}; write it without that condition")


def _is_of_user(guard: Any) -> bool:
    """True if the condition stands in the reference: torch's own are about layouts and about sizes of 0 and 1."""
    place = getattr(guard.sloc.framework_loc, "filename", "")
    return not str(place).startswith(str(Path(torch.__file__).parent))


def _holds_generally(condition: Any, symbols: Mapping[Any, str]) -> bool:
    """True if the condition says that sizes divide or are equal, or if it holds for all kinds of sizes."""
    if isinstance(condition, sympy.Eq):
        return condition.has(Mod, PythonMod) or bool(condition.lhs.free_symbols and condition.rhs.free_symbols)
    if isinstance(condition, sympy.Ne):
        return condition.rhs in (0, 1)
    free = [symbol for symbol in condition.free_symbols if symbol in symbols]
    trials = [(base, step) for base in (2, 5, 97, 4096) for step in (0, 1, 7)]
    return not any(
        condition.subs({symbol: base + step * number for number, symbol in enumerate(free)}) == sympy.false
        for base, step in trials
    )


_DATA = ("GuardOnDataDependent", "DataDependentOutput", "DynamicOutputShape")


def _refusal(error: BaseException) -> Unsupported:
    """Why a reference cannot be traced, from what torch says."""
    text = next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
    if isinstance(error, Unsupported):
        return error
    if any(word in type(error).__name__ for word in _DATA) or isinstance(error, torch.fx.proxy.TraceError):
        return Unsupported(
            f"the reference's steps or shapes depend on the content of a tensor ({text}); "
            "use operations whose result has a shape that follows from the inputs' shapes"
        )
    return Unsupported(f"the reference cannot be traced: {type(error).__name__}: {text}")
