"""Texts: the pieces of Python code that fill in the package's parts, from how the champion is called and proven."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kevolve.export.proven import Proven
from kevolve.operators.interface import Interface, dimensions
from kevolve.operators.operator import Argument

_INDENT = "    "


def texts_of(interface: Interface, proven: Proven) -> dict[str, str]:
    """What the parts ask for by `$name`."""
    tensors = interface.tensors
    floating = [argument for argument in tensors if argument.dtype == "value"]
    integers = [name for name, is_tensor in interface.parameters.items() if not is_tensor]
    outputs = interface.outputs
    return {
        "name": interface.name,
        "typed": interface.typed,
        "named": interface.named,
        "named_tuple": _tuple(interface.parameters),
        "parameter_names": repr(tuple(interface.parameters)),
        "first": tensors[0].name,
        "tensors": ", ".join(argument.name for argument in tensors),
        "tensors_tuple": _tuple(argument.name for argument in tensors),
        "tensor_names": repr(tuple(argument.name for argument in tensors)),
        "floating": ", ".join(argument.name for argument in floating),
        "floating_tuple": _tuple(argument.name for argument in floating),
        "floating_names": repr(tuple(argument.name for argument in floating)),
        "integers": "".join(f"{name}, " for name in integers),
        "restored": f"{_tuple(integers)} = ctx.integers" if integers else "",
        "by_parameter": _by_parameter(interface, floating),
        "answer": ", ".join(argument.name for argument in outputs),
        "answer_of": _tuple(argument.name for argument in outputs),
        "output_names": repr(tuple(argument.name for argument in outputs)),
        "floating_output_names": repr(tuple(a.name for a in outputs if a.dtype == "value")),
        "is_floating_output": repr(tuple(argument.dtype == "value" for argument in outputs)),
        "returned": _returned(len(outputs)),
        **_form(interface),
        **_contract(interface, proven),
        **_kernel(interface),
    }


def _contract(interface: Interface, proven: Proven) -> dict[str, str]:
    tensors = interface.tensors
    ranges = [f"{low} <= _sizes.{name} <= {high}" for name, (low, high) in proven.scalars.items()]
    too_many = [f"{argument.name}.numel() > {proven.elements[argument.name]}" for argument in tensors]
    for argument in interface.outputs:
        lengths = [length for length in dimensions(argument)[1:-1].rstrip(",").split(", ") if length]
        product = " * ".join(f"({length})" if " + " in length else length for length in lengths)
        too_many.append(f"{product or 1} > {proven.elements[argument.name]}")
    fixed = [argument for argument in tensors if argument.dtype not in ("value", "index")]
    return {
        "size_fields": "\n".join(f"{_INDENT}{name}: int" for name in interface.scalars),
        "size_values": ", ".join(interface.scalars.values()),
        "size_ranges": ", ".join(f'"{name}": {bounds}' for name, bounds in proven.scalars.items()),
        "elements": ", ".join(f'"{name}": {most}' for name, most in proven.elements.items()),
        "variants": "\n".join(f'{_INDENT}{key}: "{name}",' for key, name in variants(interface, proven).items()),
        "value_dtype": _value_dtype(interface),
        "dtype_key": _tuple(_dtypes(interface)),
        "ranks": "\n".join(_ranks(tensors)),
        "shapes": "\n".join(_shapes(interface)),
        "fixed_dtypes": "\n".join(
            f"{_INDENT}if {a.name}.dtype != torch.{a.dtype}:\n"
            f'{_INDENT * 2}return f"{a.name} is {{{a.name}.dtype}}, the kernel takes {a.dtype}"'
            for a in fixed
        ),
        "in_ranges": " and ".join(ranges) or "True",
        "too_many": " or ".join(too_many),
    }


def variants(interface: Interface, proven: Proven) -> Mapping[str, str]:
    """Names of builds by the dtypes that tell them apart, as Python text: `(torch.float32, torch.int64)`."""
    has_index = any(argument.dtype == "index" for argument in interface.tensors)
    found: dict[str, str] = {}
    for dtype, index_dtype in proven.variants:
        key = f"(torch.{dtype}, torch.{index_dtype})" if has_index else f"(torch.{dtype},)"
        found.setdefault(key, f"{dtype}-{index_dtype}")
    return found


def _dtypes(interface: Interface) -> list[str]:
    index = [f"{argument.name}.dtype" for argument in interface.tensors if argument.dtype == "index"]
    return [_value_dtype(interface), *index[:1]]


def _value_dtype(interface: Interface) -> str:
    """Of the first floating input; a program of integers alone is built once, for float32."""
    floating = [argument.name for argument in interface.tensors if argument.dtype == "value"]
    return f"{floating[0]}.dtype" if floating else "torch.float32"


def _ranks(tensors: list[Argument]) -> list[str]:
    """What is wrong whatever the sizes are: dimensions, devices, and floating dtypes that differ."""
    lines = []
    for argument in tensors:
        shown = f"[{', '.join(argument.shape)}]"
        lines += [f"if {argument.name}.dim() != {len(argument.shape)}:"]
        lines += [f'{_INDENT}raise _wrong("{argument.name}", {argument.name}, "{shown}")']
    first, *others = tensors
    for argument in others:
        lines += [f"if {argument.name}.device != {first.name}.device:"]
        told = f"{argument.name} is on {{{argument.name}.device}}, {first.name} on {{{first.name}.device}}"
        lines += [f'{_INDENT}raise ValueError(f"{told}")']
    floating = [argument.name for argument in tensors if argument.dtype == "value"]
    for name in floating[1:]:
        lines += [f"if {name}.dtype != {floating[0]}.dtype:"]
        told = f"{name} is {{{name}.dtype}}, {floating[0]} is {{{floating[0]}.dtype}}"
        lines += [f'{_INDENT}raise TypeError(f"{told}")']
    return [_INDENT + line for line in lines]


def _shapes(interface: Interface) -> list[str]:
    """Dimensions that must fit those from which the sizes were read; those themselves need no look."""
    lines = []
    for argument in interface.tensors:
        if all(_is_read_from(interface, argument.name, axis, d) for axis, d in enumerate(argument.shape)):
            continue
        shown = f"[{', '.join(argument.shape)}], here {{list({dimensions(argument)})}}"
        lines += [f"if {argument.name}.shape != {dimensions(argument)}:"]
        lines += [f'{_INDENT}raise _wrong("{argument.name}", {argument.name}, f"{shown}")']
    if interface.scalars:
        lines += ["if min(_sizes) < 0:", f'{_INDENT}raise ValueError(f"{{_sizes}}: a size cannot be negative")']
    return [_INDENT + line for line in lines]


def _is_read_from(interface: Interface, tensor: str, axis: int, length: str) -> bool:
    """Is the scalar that the dimension names read from this very dimension?"""
    name, _, more = length.partition(" + ")
    wanted = f"{tensor}.shape[{axis}]" + f" - {more}" * bool(more)
    return interface.scalars.get(name) == wanted


def _kernel(interface: Interface) -> dict[str, str]:
    call, types = [], []
    for argument in interface.arguments:
        is_scalar = argument.kind == "scalar"
        call.append(f"_sizes.{argument.name}" if is_scalar else f"{argument.name}.data_ptr()")
        types.append("ctypes.c_int64" if is_scalar else "ctypes.c_void_p")
    value, first = _value_dtype(interface), interface.tensors[0].name
    dtypes = {"value": value, "index": (_dtypes(interface)[1:] or [value])[0]}
    made = [
        f"{_INDENT}{a.name} = torch.empty({dimensions(a)}, "
        f"dtype={dtypes.get(a.dtype, f'torch.{a.dtype}')}, device={first}.device)"
        for a in interface.outputs
    ]
    tensors = [argument.name for argument in (*interface.tensors, *interface.outputs)]
    return {
        "contiguous": "\n".join(f"{_INDENT}{a.name} = {a.name}.contiguous()" for a in interface.tensors),
        "outputs": "\n".join(made),
        "kept": "".join(f"{name}, " for name in tensors),
        "call_by_address": ", ".join(call),
        "call": ", ".join(
            f"_sizes.{argument.name}" if argument.kind == "scalar" else argument.name
            for argument in interface.arguments
        ),
        "argtypes": ", ".join(types),
    }


def _form(interface: Interface) -> dict[str, str]:
    """How the public function returns what the operator of PyTorch does."""
    outputs, call = interface.outputs, f"run({interface.named})"
    if interface.form == "tensor":
        return {"form_type": "torch.Tensor", "wrapped": call, "result": interface.result}
    if interface.form == "dict":
        parts = call if len(outputs) > 1 else f"({call},)"
        names = tuple(argument.name for argument in outputs)
        return {
            "form_type": "dict[str, torch.Tensor]",
            "wrapped": f"dict(zip({names!r}, {parts}))",
            "result": interface.result,
        }
    wrapped = call if len(outputs) > 1 else f"({call},)"
    return {"form_type": _returned(len(outputs), always=True), "wrapped": wrapped, "result": interface.result}


def _returned(count: int, *, always: bool = False) -> str:
    return f"tuple[{', '.join(['torch.Tensor'] * count)}]" if count > 1 or always else "torch.Tensor"


def _by_parameter(interface: Interface, floating: list[Argument]) -> str:
    place = {argument.name: number for number, argument in enumerate(floating)}
    return ", ".join(f"_found[{place[name]}]" if name in place else "None" for name in interface.parameters)


def _tuple(names: Iterable[str]) -> str:
    listed = ", ".join(names)
    return f"({listed}{'' if ', ' in listed else ','})"
