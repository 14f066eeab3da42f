"""Compiles a Triton program for a target, without a device. Run confined: `python -I compiling.py request.json`.

Reads the request (`build.py` writes it), runs the launching function on tensors without data, compiles every
specialisation that was launched, and writes the binaries and `manifest.json` beside the request. What is wrong with the
program ends up in the manifest as `error`.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import os
import re
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_ADDRESS = 1 << 40  # where tensors without data seem to be
_MOST_THREADS = 1024  # of a block, NVIDIA's and AMD's
_MOST_NUMBERS = 512  # of a block for each thread: twice as many as it has registers for
_WARPS = 4  # of a launch that does not say how many
# Of the code object's metadata, version 5 (LLVM's user guide for the AMDGPU backend).
_AMD_FIELDS = {
    "registers": "vgpr_count", "scalar_registers": "sgpr_count", "spilled_registers": "vgpr_spill_count",
    "spilled_scalar_registers": "sgpr_spill_count", "scratch_bytes": "private_segment_fixed_size",
    "wavefront": "wavefront_size",
}  # fmt: skip


class Recorder:
    """A backend that writes down what is launched."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, tuple[int, int, int], list[Any]]] = []
        self.next = 1 << 44

    def launch(self, key: Any, grid: tuple[int, int, int], values: list[Any]) -> None:
        self.launches.append((key, grid, values))

    def workspace(self, size: int, *, is_zero: bool) -> int:
        address, self.next = self.next, self.next + (size + 511) // 512 * 512
        if is_zero:
            self.launches.append((None, (size, 1, 1), []))
        return address


class Refused(Exception):
    """What is wrong with the program, and the compiler's words."""

    def __init__(self, reason: str, detail: str = ""):
        super().__init__(reason)
        self.detail = detail


def file_module(name: str, path: str) -> ModuleType:
    """A module from a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def traced(host: ModuleType, source: str, entry: str, calls: list[dict[str, Any]]) -> list[list[Any]]:
    """What each call launches. Raises Refused."""
    recorder = Recorder()
    try:
        program = host.Host(source, entry, recorder)
    except Exception as error:
        raise Refused(f"the file cannot be run: {type(error).__name__}: {error}") from error
    found = []
    for call in calls:
        recorder.launches, recorder.next = [], 1 << 44
        arguments, address = [], _ADDRESS
        for argument in call["arguments"]:
            if isinstance(argument, int):
                arguments.append(argument)
                continue
            dtype = host.DTYPES[argument["dtype"]]
            arguments.append(host.Tensor(address + call["shift"] * dtype.itemsize, argument["shape"], dtype))
            address += 1 << 36
        try:
            program.entry(*arguments)
        except Exception as error:
            reason = str(error) if isinstance(error, host.LaunchError) else f"{type(error).__name__}: {error}"
            raise Refused(f"{entry}(...) fails on {call['workload']}: {reason[:300]}") from error
        found.append(recorder.launches)
    return found


def _program(source: str, folder: Path) -> ModuleType:
    """The program as Triton sees it. Kernels have no use for PyTorch, so it is not imported: that takes seconds."""
    file = folder / "program.py"
    file.write_text(source)
    stand_in: Any = ModuleType("torch")
    stand_in.Tensor = object
    sys.modules["torch"] = stand_in
    try:
        return file_module("program", str(file))
    finally:
        del sys.modules["torch"]


def compiled(module: ModuleType, key: Any, target: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """The binary of one specialisation, and what is needed to launch it. Raises Refused."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = getattr(module, key.kernel)
    signature, constants, facts = {}, {}, {}
    for at, (name, argument) in enumerate(zip(function.arg_names, key.arguments, strict=True)):
        signature[name] = argument[0]
        if argument[0] == "constexpr":
            constants[(at,)] = argument[1]
        elif argument[1]:
            facts[(at,)] = [["tt.divisibility", 16]]
    try:
        source = ASTSource(function, signature, constants, facts)
        kernel = triton.compile(source, target=GPUTarget(*target["triton"]), options=dict(key.options))
    except Exception as error:
        told = _without_paths(str(error))
        where = target["architecture"]
        reason = f"{key.kernel} does not compile for {where}: {_gist(told) or type(error).__name__}"
        raise Refused(reason, told[:4000]) from error
    about = {
        "name": kernel.metadata.name,
        "architecture": target["architecture"],
        "threads": target["triton"][2] * kernel.metadata.num_warps,
        "shared_bytes": kernel.metadata.shared,
    }
    if target["triton"][0] == "hip":
        return kernel.asm["hsaco"], about | amd_resources(kernel.asm["amdgcn"])
    return kernel.asm["cubin"], about | _cuda_resources(kernel, key)


def _cuda_resources(kernel: Any, key: Any) -> dict[str, Any]:
    """What a cubin takes, and the parameters that its launch needs beyond those that the program names."""
    ptx = kernel.asm["ptx"]
    visible = sum(argument[0] != "constexpr" for argument in key.arguments)
    header = ptx[ptx.index(".entry") :].partition(")")[0]
    return {
        "hidden": header.count(".param") - visible,
        "scratch_bytes": getattr(kernel.metadata, "global_scratch_size", 0) or 0,
        "registers": registers(kernel.asm["cubin"]),
    }


def amd_resources(assembly: str) -> dict[str, int]:
    """What a kernel takes on an AMD GPU, from its assembly: the code object's metadata end it, as YAML.

    `registers` are the vector registers of a thread, those for the matrix cores among them; `matrix_instructions`
    counts them in the text, not in time.
    """
    found = {}
    for name, field in _AMD_FIELDS.items():
        told = re.search(rf"^\s*-?\s*\.{field}:\s*(\d+)\s*$", assembly, re.MULTILINE)
        found[name] = int(told[1]) if told else 0
    return {**found, "matrix_instructions": len(re.findall(r"^\s+v_mfma_", assembly, re.MULTILINE))}


def registers(cubin: bytes) -> int:
    """Registers of a thread: the attribute REGCOUNT (0x2f) in the ELF section .nv.info."""
    (offset,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<3H", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQII", cubin, offset + at * size) for at in range(count)]
    for name, _, _, _, start, length, _, _ in sections:
        named = sections[names][4] + name
        if cubin[named : cubin.index(b"\0", named)] == b".nv.info":
            return _register_count(cubin[start : start + length])
    return 0


def _register_count(info: bytes) -> int:
    """Records of (form, attribute, 16 bits); in form 4 those are the size of what follows."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        if form == 4 and attribute == 0x2F:
            return int(struct.unpack_from("<I", info, at + 8)[0])
        at += 4 + (size if form == 4 else 0)
    return 0


def _gist(told: str) -> str:
    """The line that says what is wrong: the assembler's error, or else the last of Triton's."""
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    errors = [line.partition(": ")[2] for line in lines if re.search(r"\.ptx, line \d+; error", line)]
    return (errors or lines[-1:] or [""])[0][:300]


def _without_paths(text: str) -> str:
    return re.sub(r"/\S+/(\w+\.py)", r"\1", text)


def built(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The manifest. Cubins are written beside it, by number."""
    host = file_module("host", request["host"])
    source, entry = request["source"], request["entry"]
    traces = traced(host, source, entry, request["calls"])
    module = _program(source, folder)
    keys = dict.fromkeys(launch[0] for trace in traces for launch in trace if launch[0] is not None)
    kernels: list[dict[str, Any]] = []
    for key in keys:
        _refuse_too_large(source, key, request["targets"])
    for target in request["targets"]:
        for key in keys:
            binary, about = compiled(module, key, target)
            _refuse_unlaunchable(key, about, target)
            (folder / f"{len(kernels)}.cubin").write_bytes(binary)
            kernels.append({"key": [key.kernel, key.arguments, key.options], **about})
    return {"kernels": kernels}


def _refuse_too_large(source: str, key: Any, targets: list[dict[str, Any]]) -> None:
    """Raises Refused for blocks of numbers that no registers hold: compiling those takes minutes, running them longer.

    Only blocks whose size is in the text count, such as `tl.zeros((ROWS, COLUMNS), ...)`.
    """
    function = next(
        node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == key.kernel
    )
    names = [argument.arg for argument in function.args.args]
    sizes = {name: one[1] for name, one in zip(names, key.arguments, strict=True) if one[0] == "constexpr"}
    warps = dict(key.options).get("num_warps", _WARPS)
    threads = warps * min(target["triton"][2] for target in targets)
    for call in ast.walk(function):
        if not (isinstance(call, ast.Call) and ast.unparse(call.func) in ("tl.zeros", "tl.full") and call.args):
            continue
        shape = call.args[0].elts if isinstance(call.args[0], ast.Tuple | ast.List) else []
        known = [sizes.get(one.id) if isinstance(one, ast.Name) else getattr(one, "value", None) for one in shape]
        count = math.prod(size if type(size) is int else 0 for size in known)
        if count > _MOST_NUMBERS * threads:
            raise Refused(
                f"{key.kernel} holds {ast.unparse(call.args[0])} = {count} numbers in {threads} threads, over"
                f" {_MOST_NUMBERS} each, and a thread has 255 registers: smaller blocks or more warps"
            )


def _refuse_unlaunchable(key: Any, about: dict[str, Any], target: dict[str, Any]) -> None:
    """Raises Refused for what compiles and can never be launched."""
    if about["shared_bytes"] > target["shared_bytes"]:
        needs, has, where = about["shared_bytes"], target["shared_bytes"], target["architecture"]
        raise Refused(
            f"{key.kernel} needs {needs} bytes of shared memory, a block has {has} on {where}: smaller tiles or stages"
        )
    if about["threads"] > _MOST_THREADS:
        warp = target["triton"][2]
        raise Refused(
            f"{key.kernel} is launched with {about['threads']} threads, since a warp has {warp}; a block has at most"
            f" {_MOST_THREADS}: num_warps={_MOST_THREADS // warp} or fewer"
        )


def main(path: str) -> None:
    """Answer the request in the file `path`."""
    request = json.loads(Path(path).read_text())
    folder = Path(path).parent
    # Line numbers in the binaries would make programs differ that do the same.
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    sys.path.insert(0, request["packages"])
    try:
        manifest = built(request, folder)
    except Refused as refused:
        manifest = {"error": str(refused), "detail": refused.detail}
    (folder / "manifest.json").write_text(json.dumps(manifest))


if __name__ == "__main__":
    main(sys.argv[1])
