"""Walks a traced graph: every ATen operation by its lowering, or else by what torch says it is made of."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree
from torch.utils._sympy.functions import FloorDiv

from kevolve.languages.cpp.lowering.expressions import Expression, Kind, call, cast, constant, infix, negative
from kevolve.languages.cpp.lowering.indices import Index
from kevolve.languages.cpp.lowering.operations import activations, contractions, gathers, pointwise, reductions, views
from kevolve.languages.cpp.lowering.operations.calls import LOWERINGS, Call, as_tensor
from kevolve.languages.cpp.lowering.tensors import Input, Tensor
from kevolve.languages.cpp.lowering.tensors import pointwise as from_elements
from kevolve.languages.cpp.lowering.trace import graph_of
from kevolve.languages.cpp.lowering.unsupported import Unsupported

# Each of these rooms fills the table of lowerings when it is imported.
ROOMS = (pointwise, activations, views, reductions, contractions, gathers)
_FLOATS: dict[Any, Any] = {
    torch.sym_float: lambda a: cast(a, "float"),
    torch.sym_sqrt: lambda a: call("sqrtf", cast(a, "float")),
    operator.add: lambda a, b: infix("+", a, b, "float"),
    operator.sub: lambda a, b: infix("-", a, b, "float"),
    operator.mul: lambda a, b: infix("*", a, b, "float"),
    operator.truediv: pointwise.divided,
    operator.pow: pointwise.powered,
    operator.neg: lambda a: negative(a),
}
LARGEST_TABLE = 4096
_RANDOM = ("rand", "bernoulli", "normal", "multinomial", "dropout", "uniform", "exponential")


def kind_of(dtype: torch.dtype) -> Kind:
    """The kind of scalar that elements of a dtype are computed as."""
    if dtype.is_complex:
        raise Unsupported("complex numbers have no lowering; compute with real and imaginary parts")
    return "bool" if dtype == torch.bool else "float" if dtype.is_floating_point else "int"


class Walk:
    """One graph on its way to tensors.

    `sizes` are torch's symbols as sizes by argument name, `exact` quotients of torch's expressions without remainder.
    """

    def __init__(self, sizes: Mapping[Any, Index], exact: Collection[tuple[Any, Any]]):
        self.sizes = sizes
        self.exact = exact
        self.tables: dict[Input, list[Expression]] = {}

    def size(self, value: Any) -> Index:
        """A SymInt or int as a size."""
        import sympy

        expression = value.node.expr if isinstance(value, torch.SymInt) else sympy.Integer(value)
        found = expression.replace(FloorDiv, self.divided).subs(self.sizes)
        strangers = [str(s) for s in found.free_symbols if s not in self.sizes.values()]
        if strangers:
            raise Unsupported(
                "a shape depends on the content of a tensor (such as nonzero, unique or boolean masks make); "
                "use operations whose result has a shape that follows from the inputs' shapes"
            )
        return found

    def divided(self, multiple: Any, divisor: Any) -> Any:
        """multiple / divisor, which simplifies further where nothing remains."""
        return multiple / divisor if (multiple, divisor) in self.exact else FloorDiv(multiple, divisor)

    def run(self, module: GraphModule, inputs: list[Any]) -> Any:
        """What the graph returns for these inputs: tensors in the structure of the reference's result."""
        values: dict[Node, Any] = {}
        given = iter(inputs)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(given)
            elif node.op == "get_attr":
                values[node] = self.held(module, node)
            elif node.op == "output":
                return pytree.tree_map(lambda value: self.argument(value, values), node.args[0])
            else:
                values[node] = self.lowered(node, values)
        raise AssertionError("a graph without output")

    def held(self, module: GraphModule, node: Node) -> Any:
        """A tensor that the reference holds itself: a constant, or a small table in the program."""
        held = getattr(module, str(node.target), None)
        if not isinstance(held, torch.Tensor) or not 0 < held.numel() <= LARGEST_TABLE:
            raise Unsupported(
                f"the reference uses a tensor of its own with more than {LARGEST_TABLE} elements or none "
                f"({node.target}); make it a parameter"
            )
        shape, kind = tuple(self.size(n) for n in held.shape), kind_of(held.dtype)
        numbers = held.flatten().tolist()
        if len(numbers) == 1:
            return views.filled(node.name, shape, kind, numbers[0])
        table = Input(shape, kind, f"table_{len(self.tables)}", False)
        self.tables[table] = [constant(number, kind) for number in numbers]
        return table

    def argument(self, value: Any, values: dict[Node, Any]) -> Any:
        """An argument of a node: tensors by their nodes, sizes as indices, plain numbers as they are."""
        if isinstance(value, Node):
            meta = value.meta.get("val")
            return self.size(meta) if isinstance(meta, torch.SymInt) else values[value]
        if isinstance(value, torch.SymInt):
            return self.size(value)
        if isinstance(value, (list, tuple)):
            return [self.argument(item, values) for item in value]
        return value

    def lowered(self, node: Node, values: dict[Node, Any]) -> Any:
        """The tensor, or the tuple of them, that a node stands for."""
        meta = node.meta.get("val")
        if isinstance(meta, torch.SymInt):
            return self.size(meta)
        if isinstance(meta, torch.SymFloat):
            return self.number(node, [as_tensor(self.argument(a, values)) for a in node.args])
        if node.target is operator.getitem:
            return values[node.args[0]][node.args[1]]  # type: ignore[index]
        if isinstance(node.target, type) and issubclass(node.target, tuple):
            return [self.argument(value, values) for value in pytree.tree_leaves((node.args, node.kwargs))]
        if not isinstance(node.target, torch._ops.OpOverload):
            raise Unsupported(f"{node.target} is no tensor operation that a program could be derived from")
        target = node.target
        name = target._schema.name.split("::")[1]
        overload = target._schema.overload_name or "default"
        full = f"{name}.{overload}"
        if full in LOWERINGS:
            call_ = self.call(node, target, full, values)
            try:
                return LOWERINGS[full](call_)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise call_.unsupported(f"with these arguments has no lowering ({error})") from error
        if target._schema.is_mutable:
            raise Unsupported(f"{full} changes a tensor in place; use the operation that returns a new one")
        if any(word in name for word in _RANDOM):
            raise Unsupported(f"{full} draws random numbers; make them an input")
        return self.decomposed(node, target, full, values)

    def number(self, node: Node, operands: list[Tensor]) -> Tensor:
        """A float computed from sizes, such as a root of the last dimension."""
        combine = _FLOATS.get(node.target)
        if combine is None:
            raise Unsupported(
                f"{node.target} gives a Python number (as .item() and arithmetic on sizes do), which has no lowering; "
                "compute it with tensor operations"
            )
        return from_elements(node.name, (), "float", operands, combine, costly=True)

    def call(self, node: Node, target: Any, full: str, values: dict[Node, Any]) -> Call:
        """A node as a call: arguments by name with their defaults."""
        names = [argument.name for argument in target._schema.arguments]
        given = {a.name: a.default_value for a in target._schema.arguments if a.has_default_value()}
        given |= dict(zip(names, (self.argument(a, values) for a in node.args), strict=False))
        given |= {name: self.argument(a, values) for name, a in node.kwargs.items()}
        results = node.meta["val"] if isinstance(node.meta["val"], (tuple, list)) else (node.meta["val"],)
        tensors = [result for result in results if isinstance(result, torch.Tensor)]
        shapes = tuple(tuple(self.size(n) for n in tensor.shape) for tensor in tensors)
        return Call(full, node.name, given, shapes, tuple(kind_of(tensor.dtype) for tensor in tensors))

    def decomposed(self, node: Node, target: Any, full: str, values: dict[Node, Any]) -> Any:
        """The node by the operations that torch composes it of."""
        table = torch._decomp.decomposition_table
        rule = table.get(target)
        if rule is None and not target._can_decompose():
            raise Unsupported(f"{full} has no lowering; write it with other operations, or the program by hand")
        flat, structure = pytree.tree_flatten((node.args, node.kwargs))
        fakes = [value.meta["val"] if isinstance(value, Node) else value for value in flat]
        places = [i for i, value in enumerate(fakes) if isinstance(value, (torch.Tensor, torch.SymInt))]

        def composed(*given: Any) -> Any:
            filled = list(fakes)
            for place, value in zip(places, given, strict=True):
                filled[place] = value
            args, kwargs = pytree.tree_unflatten(filled, structure)
            return target.decompose(*args, **kwargs) if rule is None else rule(*args, **kwargs)

        try:
            module = graph_of(composed, [fakes[i] for i in places], composite=False)
        except Unsupported:
            raise
        except Exception as error:
            raise Unsupported(f"{full} has no lowering ({type(error).__name__} while taking it apart)") from error
        if any(inner.target is target for inner in module.graph.nodes):
            raise Unsupported(f"{full} has no lowering; write it with other operations, or the program by hand")
        inputs = [self.argument(flat[i], values) for i in places]
        return self.run(module, inputs)
