"""The whole way from a reference to the text of a plain C++ program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
from torch.utils._sympy.functions import FloorDiv

from kevolve.languages.cpp.lowering.expressions import C_TYPES, Expression
from kevolve.languages.cpp.lowering.graph import Walk, kind_of
from kevolve.languages.cpp.lowering.indices import Index, size, written
from kevolve.languages.cpp.lowering.loops.nests import Nests
from kevolve.languages.cpp.lowering.loops.plan import Buffer, Plan, Revised
from kevolve.languages.cpp.lowering.loops.writing import Writer, inline
from kevolve.languages.cpp.lowering.operations.calls import as_tensor
from kevolve.languages.cpp.lowering.tensors import Input, Tensor
from kevolve.languages.cpp.lowering.trace import Trace, trace
from kevolve.languages.cpp.lowering.unsupported import Unsupported
from kevolve.operators.operator import Argument, Inputs

MOST_ATTEMPTS = 200
DEEPEST_CALLS = 20_000  # about five for each operation in a chain
_LINE = 118


def lower(reference: Callable[..., Any], arguments: Sequence[Argument], entry: str, example: Inputs) -> str:
    """A plain C++17 program that computes `reference`: `#include "kevolve.h"` and one function called `entry`.

    `arguments` are the function's, in order: inputs by the reference's parameter names, outputs in the order in which
    the reference returns them, scalars (int64). Tensors `value` are read and written as VALUE and computed in float32;
    a dimension is the name of a scalar, a number, or a sum of these. A scalar that is a parameter of the reference
    is passed to it as an int. `example` gives one set of inputs; only its sizes and dtypes are looked at.
    Raises Unsupported where there is no such program or the reference is right for some sizes only.
    """
    traced = trace(reference, arguments, example)
    walk = Walk(traced.sizes, traced.exact)
    outputs = _outputs(_walked(walk, traced), arguments, traced.equal)
    tables = [_table(table, numbers) for table, numbers in walk.tables.items()]
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEEPEST_CALLS))
    try:
        return _written(outputs, arguments, entry, tables)
    except RecursionError as error:
        raise Unsupported("the reference is a chain of too many operations; write the program by hand") from error
    finally:
        sys.setrecursionlimit(before)


def _table(table: Input, numbers: Sequence[Expression]) -> str:
    """A tensor of the reference's own as a constant array."""
    text = ", ".join(inline(number) for number in numbers)
    return f"static const {C_TYPES[table.kind]} {table.name}[{len(numbers)}] = {{{text}}};"


def _walked(walk: Walk, traced: Trace) -> Any:
    """What the reference returns, as tensors."""
    given: list[Any] = []
    nodes = [node for node in traced.module.graph.nodes if node.op == "placeholder"]
    for node, argument in zip(nodes, traced.placeholders, strict=True):
        if argument.kind == "scalar":
            given.append(size(argument.name))
            continue
        meta = node.meta["val"]
        shape = tuple(walk.size(extent) for extent in meta.shape)
        given.append(Input(shape, kind_of(meta.dtype), argument.name, argument.dtype == "value"))
    return walk.run(traced.module, given)


def _outputs(result: Any, arguments: Sequence[Argument], equal: Mapping[Index, Index]) -> list[tuple[Argument, Any]]:
    """Each output argument with its tensor, shapes checked."""
    declared = [argument for argument in arguments if argument.kind == "output"]
    if isinstance(result, Mapping):
        found = [result.get(argument.name) for argument in declared] if len(result) > 1 else list(result.values())
    else:
        found = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(found) != len(declared) or any(value is None for value in found):
        raise Unsupported(f"the reference returns {len(found)} tensors where the program has {len(declared)} outputs")
    pairs = [(argument, as_tensor(value)) for argument, value in zip(declared, found, strict=True)]
    for argument, tensor in pairs:
        wanted = tuple(_extent(text).subs(equal) for text in argument.shape)
        if len(wanted) != len(tensor.shape) or any(
            (a - _undivided(b)).expand() != 0 for a, b in zip(wanted, tensor.shape, strict=True)
        ):
            shape = ", ".join(written(extent) for extent in tensor.shape)
            raise Unsupported(
                f"output {argument.name} is declared as [{', '.join(argument.shape)}] and traced as [{shape}]; "
                "sizes that follow from each other must be written so, or be fixed"
            )
    return pairs


def _extent(text: str) -> Index:
    """A dimension as arguments write it: sums of products, `dim // 2` counted as a division without remainder."""
    return sympy.Add(*(sympy.Mul(*map(_factor, term.split(" * "))) for term in text.split(" + ")))


def _factor(text: str) -> Index:
    name, _, divisor = text.partition(" // ")
    value = sympy.Integer(name) if name.isdigit() else size(name)
    return value / sympy.Integer(divisor) if divisor else value


def _undivided(extent: Index) -> Index:
    return extent.replace(FloorDiv, lambda multiple, divisor: multiple / divisor)


def _written(
    outputs: Sequence[tuple[Argument, Any]], arguments: Sequence[Argument], entry: str, tables: list[str]
) -> str:
    plan, taken = Plan(), [*(argument.name for argument in arguments), entry]
    for _ in range(MOST_ATTEMPTS):
        nests = Nests(plan, taken)
        try:
            nests.stores([store for argument, tensor in outputs for store in nests.output(tensor, argument.name)])
        except Revised:
            continue
        lines = Writer(nests.names, nests.hints).block(nests.top)
        return _program(entry, arguments, lines, nests.buffers, tables)
    raise Unsupported("no order of loops was found for the reference; write the program by hand")


def _program(
    entry: str,
    arguments: Sequence[Argument],
    body: list[str],
    buffers: Mapping[Tensor, Buffer],
    tables: list[str],
) -> str:
    before, after = [], []
    for tensor, buffer in buffers.items():
        type_ = C_TYPES[tensor.kind]
        elements = "".join(f" * {written(extent, 3)}" for extent in tensor.shape if extent != 1)
        before.append(f"{type_} *{buffer.name} = static_cast<{type_} *>(std::malloc(sizeof({type_}){elements}));")
        after.append(f"std::free({buffer.name});")
    lines = ['#include "kevolve.h"']
    if before:
        lines += ["", "#include <cstdlib>"]
    lines += ["", "// Derived from the PyTorch reference, operation by operation."]
    lines += _signature(entry, arguments)
    lines += [f"    {line}" for line in (*tables, *before, *body, *after)]
    return "\n".join([*lines, "}", ""])


def _signature(entry: str, arguments: Sequence[Argument]) -> list[str]:
    head = f'extern "C" void {entry}('
    lines, line = [], head
    for number, argument in enumerate(arguments):
        text = _parameter(argument) + (", " if number < len(arguments) - 1 else ") {")
        if len(line) + len(text.rstrip()) > _LINE and line.strip():
            lines.append(line.rstrip())
            line = " " * len(head)
        line += text
    return [*lines, line]


_TYPES = {
    "value": "VALUE",
    "index": "INDEX",
    "bool": "bool",
    "float32": "float",
    "float64": "double",
    "bfloat16": "bfloat16",
}


def _parameter(argument: Argument) -> str:
    if argument.kind == "scalar":
        return f"int64_t {argument.name}"
    type_ = _TYPES.get(argument.dtype, f"{argument.dtype}_t")
    return f"{'const ' if argument.kind == 'input' else ''}{type_} *{argument.name}"
