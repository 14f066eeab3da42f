"""What torch.compile's own generator makes of an operator's compiled baselines, for a GPU that need not be here.

Run as `python -m kevolve.languages.triton.inductor.generating OPERATOR`: a process of its own, because it makes PyTorch
believe in a device. The last line that it prints is JSON: programs by the baseline's name, and why others are none.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import torch

from kevolve.languages.triton.inductor.assembling import Generated, NotAlone, assembled
from kevolve.operators.operator import Inputs, Operator
from kevolve.operators.registry import load_operator

_SIZES = {
    "batch": 1024,
    "max_length": 512,
    "dim": 128,
    "out_dim": 136,
}  # hints; all differ, or they would be taken for one
_LONGEST = 513  # what stands for the longest row, which only the device knows
# What is asked of a device: an H100 or H200. It decides nothing but which block sizes are tried first.
_PROPERTIES = {
    "multi_processor_count": 132, "major": 9, "warp_size": 32, "regs_per_multiprocessor": 65536,
    "max_threads_per_multi_processor": 2048,
}  # fmt: skip


class _Taken(Exception):
    """What a baseline was about to compile, and with which arguments."""

    def __init__(self, form: Callable[..., Any], arguments: tuple[Any, ...]):
        super().__init__()
        self.form, self.arguments = form, arguments


def generated(operator: Operator, baseline: Callable[[Inputs], Any]) -> Generated:
    """The generator's text for what a baseline compiles. NotAlone says why there is none."""
    inputs = _inputs(operator)
    form, names, arguments = _form(baseline, inputs)
    graph, mode = _on_device(form, arguments)
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    symbols: dict[str, str] = {}
    shapes = {argument.name: argument.shape for argument in operator.arguments}
    for node, name in zip(placeholders, names, strict=True):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            symbols |= {str(size): dim for size, dim in zip(value.shape, shapes[name], strict=True)}
        else:
            symbols[str(value)] = name
    with _a_device(), _wide_indices(operator):
        text = _code(graph, [node.meta.get("val") for node in placeholders], mode)
        configurations = _configurations(text)
    return Generated(
        text, {node.name: name for node, name in zip(placeholders, names, strict=True)}, symbols, configurations
    )


def _inputs(operator: Operator) -> Inputs:
    """Of the main workload, in bfloat16: what is generated for it widens what it loads, and so is right for others."""
    main = next(workload for workload in operator.workloads if workload.name == "main")
    sizes = {name: _SIZES.get(name, size) for name, size in main.sizes.items()}
    hints = replace(main, sizes=sizes, dtype="bfloat16", index_dtype="int64")
    return operator.make_inputs(hints, torch.Generator().manual_seed(0))


def _form(baseline: Callable[[Inputs], Any], inputs: Inputs) -> tuple[Callable[..., Any], list[str], tuple[Any, ...]]:
    """What the baseline compiles, the names of its arguments, and their values."""
    module = sys.modules[baseline.__module__]

    def take(form: Callable[..., Any]) -> Callable[..., Any]:
        def stop(*arguments: Any) -> None:
            raise _Taken(form, arguments)

        return stop

    with (
        mock.patch.object(module, "compiled", take),
        mock.patch.object(module, "longest", return_value=_LONGEST, create=True),
    ):
        try:
            baseline(inputs)
        except _Taken as taken:
            known = {id(tensor): name for name, tensor in inputs.tensors.items()}
            values = {**{value: name for name, value in inputs.scalars.items()}, _LONGEST: "longest"}
            names = [known.get(id(one)) or values.get(one if isinstance(one, int) else -1) for one in taken.arguments]
            if None in names:
                raise NotAlone("it compiles a part whose inputs are not the operator's") from None
            return taken.form, [str(name) for name in names], taken.arguments
    raise NotAlone("nothing is compiled")


def _on_device(form: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[torch.fx.GraphModule, Any]:
    """The form's graph with symbolic sizes, traced on the CPU and moved to a device that is not touched."""
    from torch._inductor.decomposition import select_decomp_table
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils import _pytree

    graph = make_fx(form, tracing_mode="symbolic", decomposition_table=select_decomp_table())(*arguments)
    device, mode = torch.device("cuda", 0), None

    def moved(value: Any) -> Any:
        nonlocal mode
        if not isinstance(value, FakeTensor):
            return value
        mode = value.fake_mode
        with mode:
            return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="cuda")

    for node in graph.graph.nodes:
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": device}
        node.args = torch.fx.node.map_aggregate(node.args, lambda one: device if isinstance(one, torch.device) else one)
        if "val" in node.meta:
            node.meta["val"] = _pytree.tree_map(moved, node.meta["val"])
    graph.recompile()
    return graph, mode


def _code(graph: torch.fx.GraphModule, values: list[Any], mode: Any) -> str:
    from torch._inductor import config
    from torch._inductor.debug import DebugContext
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V

    settings = {"assert_indirect_indexing": False, "size_asserts": False, "triton.cudagraphs": False}
    with V.set_fake_mode(mode), config.patch(settings):
        lowering = GraphLowering(graph, example_inputs=values, shape_env=mode.shape_env)
        with V.set_graph_handler(lowering), V.set_debug_handler(DebugContext()):
            lowering.run(*values)
            code: Any = lowering.codegen()[0]
    return str(getattr(code, "value", code))


@contextlib.contextmanager
def _a_device() -> Iterator[None]:
    """PyTorch's generator asks what the device is like; nothing is run on it."""
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor.runtime import triton_helpers
    from torch._inductor.runtime.hints import DeviceProperties

    rest = {key: value for key, value in _PROPERTIES.items() if key != "warp_size"}
    hints = DeviceProperties(type="cuda", index=0, cc=90, warp_size=32, **rest)
    properties = SimpleNamespace(**_PROPERTIES, minor=0, name="NVIDIA H200", gcnArchName="")
    with contextlib.ExitStack() as stack:
        for target, name, value in (
            (DeviceProperties, "create", staticmethod(lambda device: hints)),
            (CudaInterface.Worker, "get_device_properties", staticmethod(lambda *_: properties)),
            (torch.cuda, "is_available", lambda: True),
            (torch.cuda, "current_device", lambda: 0),
            (torch.cuda, "get_device_capability", lambda *_: (9, 0)),
            (torch.cuda, "get_device_properties", lambda *_: properties),
            (torch.utils._triton, "triton_hash_with_backend", lambda: ""),
            (torch.utils._triton, "triton_backend", lambda: SimpleNamespace(target=None)),
            (triton_helpers, "set_driver_to_gpu", lambda: None),
        ):
            stack.enter_context(mock.patch.object(target, name, value))
        yield


def _wide_indices(operator: Operator) -> contextlib.AbstractContextManager[Any]:
    """Indices of 64 bits where a workload has a tensor that needs them: by itself the generator goes by the hints."""
    from torch._inductor.codegen.simd import SIMDScheduling

    counts = [_most(operator, dict(workload.sizes)) for workload in operator.workloads]
    if max(counts, default=0) < 2**31:
        return contextlib.nullcontext()
    return mock.patch.object(SIMDScheduling, "can_use_32bit_indexing", staticmethod(lambda *_, **__: False))


def _most(operator: Operator, sizes: dict[str, int]) -> int:
    """The elements of the greatest tensor of a call, rows counted as many as there may be."""
    shapes = operator.shapes({**sizes, "total": sizes["batch"]})
    most = 0
    for shape in shapes.values():
        count = 1
        for size in shape:
            count *= size
        most = max(most, count)
    return most


def _configurations(text: str) -> dict[str, dict[str, int]]:
    """For each kernel the block sizes and options that the generator would try first."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "async_compile.triton":
            name, source = (ast.literal_eval(argument) for argument in node.args[:2])
            first = getattr(_module(name, source), name).configs[0]
            found[name] = {**first.kwargs, "num_warps": first.num_warps, "num_stages": first.num_stages}
    return found


def _module(name: str, source: str) -> ModuleType:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.py")
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def main(name: str) -> None:
    """Print the programs for an operator of kevolve."""
    operator = load_operator(name, "cuda")
    programs: dict[str, str] = {}
    failures: dict[str, str] = {}
    baselines: Mapping[str, Any] = operator.baselines("cuda")
    for title, baseline in baselines.items():
        if not title.startswith("compiled"):
            continue
        try:
            programs[title] = assembled(operator, title, generated(operator, baseline))
        except NotAlone as reason:
            failures[title] = str(reason)
        except Exception as error:  # of PyTorch's own works, which differ from version to version
            failures[title] = f"PyTorch {torch.__version__}: {type(error).__name__}: {error}".splitlines()[0][:300]
    print("\n" + json.dumps({"programs": programs, "failures": failures}))


if __name__ == "__main__":
    main(sys.argv[1])
