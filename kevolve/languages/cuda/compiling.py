"""Compiles a CUDA C++ program for a target, without a device. Run confined: `python -I compiling.py request.json`.

Reads the request (`build.py` writes it), runs the translated launching function on tensors without data, compiles what
may be launched once per variant, and writes a cubin for each and `manifest.json` beside the request. What is wrong with
the program ends up in the manifest as `error`, what is wrong with the machine as `trouble`.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

_ADDRESS = 1 << 40  # where tensors without data seem to be
_VALUES = {"float32": "float", "bfloat16": "__nv_bfloat16", "float16": "__half"}
_INDICES = {"int32": "int32_t", "int64": "int64_t"}
_HEADERS = {"bfloat16": ["-DKEVOLVE_BFLOAT16"], "float16": ["-DKEVOLVE_FLOAT16"]}
# Nothing that changes results (-use_fast_math). Not -default-device: constants would become variables of the device.
_OPTIONS = ("-std=c++17", "-w", "-include=kevolve_cuda.h")
# By the type in PTX, what `cuda_driver.packed` knows it as.
_KINDS = {"8": "i8", "16": "i16", "32": "i32", "64": "u64"}
# What the compiler says of a launch, which is a call for it (include/kevolve_cuda.h).
_LAUNCH = re.compile(
    r'function "KevolveLaunch<Parameters\.\.\.>::operator\(\) \[with Parameters=<(.*?)>\]" cannot be called .*list'
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TABLES = ("__cudart_i2opi_f", "__cudart_i2opi_d", "__cudart_sin_cos_coeffs")  # of sinf, sin and their like
_MAY_NAME = re.compile(r"cudart|##|%:%:|\basm\b|__asm")
_CLOCKS = re.compile(r"%(?:clock\w*|globaltimer\w*|pm\d+\w*)")
_REGISTERS, _REGISTERS_AT_ONCE, _WARP = 65536, 8, 32  # of a multiprocessor, and how they are given out to threads


class Refused(Exception):
    """What is wrong with the program, and the compiler's words."""

    def __init__(self, reason: str, detail: str = ""):
        super().__init__(reason)
        self.detail = detail


class Recorder:
    """A backend that writes down what is launched: (kernel, grid, block, bytes of shared memory, values)."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []
        self.next = 1 << 44

    def launch(self, *launch: Any) -> None:
        self.launches.append(launch)

    def workspace(self, size: int, *, is_zero: bool) -> int:
        address, self.next = self.next, self.next + (size + 511) // 512 * 512
        return address

    def clear(self, address: int, size: int) -> None:
        pass


def file_module(path: Path) -> ModuleType:
    """A module from a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def traced(host: ModuleType, request: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Any]]]:
    """(variant, workload, launches) of each call. Raises Refused."""
    try:
        program = host.Host(request["host"], request["kernels"], request["kinds"])
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise Refused(f"what launches cannot be run: {type(error).__name__}: {error}") from error
    for call in request["calls"]:
        dtypes = [argument["dtype"] for argument in call["arguments"] if not isinstance(argument, int)]
        recorder, variant = Recorder(), program.variant(dtypes)
        arguments: list[Any] = []
        for number, argument in enumerate(call["arguments"]):
            size = 1 if isinstance(argument, int) else host.SIZES[argument["dtype"]]
            address = _ADDRESS + (number << 36) + call["shift"] * size
            arguments.append(argument if isinstance(argument, int) else host.Pointer(address, size))
        try:
            program.entry(variant, recorder)(*arguments)
        except Exception as error:
            reason = str(error) if isinstance(error, host.LaunchError) else f"{type(error).__name__}: {error}"
            raise Refused(f"{request['entry']}(...) fails on {call['workload']}: {reason[:300]}") from error
        yield variant, call["workload"], recorder.launches


class Variant:
    """One pair of VALUE and INDEX: what the calls launch of it, and the cubin."""

    def __init__(self, name: str):
        self.name = name
        self.launches: list[tuple[str, list[Any]]] = []  # with the workload

    def kernels(self, always: Sequence[str]) -> list[str]:
        """Those to build."""
        return list(dict.fromkeys([*always, *(launch[0] for _, launch in self.launches)]))

    def options(self, request: Mapping[str, Any]) -> list[str]:
        value, _, index = self.name.partition("-")
        own = [f"-DVALUE={_VALUES[value]}", f"-DINDEX={_INDICES[index]}", *_HEADERS.get(value, [])]
        include = [f"-I{folder}" for folder in request["include"]]
        return [*_OPTIONS, f"-arch={request['architecture']}", *own, *include]


def compiled(
    variant: Variant, request: Mapping[str, Any], compiler: Any, nvrtc: ModuleType, cubins: ModuleType
) -> tuple[bytes, dict[str, Any]]:
    """The cubin of a variant and its kernels. Raises Refused."""
    kernels = variant.kernels(request["always"])
    try:
        found = compiler.compiled(request["source"], variant.options(request), kernels)
    except nvrtc.CompileError as error:
        said = _LAUNCH.sub(r"a kernel that takes (\1) is launched with other arguments", str(error))
        raise Refused(
            f"does not compile with VALUE and INDEX of {variant.name}: {nvrtc.first_error(said)}", said[:4000]
        ) from error
    cubin = cubins.Cubin(found.cubin)
    _refuse_what_stays(cubin, found.ptx, request["source"])
    about = {}
    for kernel in kernels:
        lowered = found.names[kernel]
        about[kernel] = {"name": lowered, "kinds": parameters(found.ptx, lowered, kernel), **cubin.resources(lowered)}
    for workload, launch in variant.launches:
        _refuse_unlaunchable(launch, about[launch[0]], workload, request)
    _set_dynamic_shared(variant, about, request["shared_bytes"])
    return found.cubin, about


def _refuse_what_stays(cubin: Any, ptx: str, source: str) -> None:
    """Raises Refused for what outlives a launch, or looks at more than the program was given."""
    if wanted := cubin.wanted():
        raise Refused(f"a kernel may not print, allocate, assert or launch: it calls {', '.join(wanted)[:200]}")
    # A constant whose number alone is used has memory, too: its name is declared and stands nowhere else. What inline
    # PTX declares in a function has another name in the cubin, one with a dollar.
    words = Counter(re.findall(r"[\w$]+", _COMMENT.sub(" ", ptx)))
    own = _TABLES if not _MAY_NAME.search(source) else ()  # the compiler's: what cannot name them cannot write them
    if state := [name for name in cubin.variables() if name not in own and (words[name] != 1 or "$" in name)]:
        raise Refused(
            f"{', '.join(state)[:200]} keeps its value between calls: a table is __constant__, scratch memory comes"
            " from workspace<T>(count)"
        )
    if clock := _CLOCKS.search(ptx):
        raise Refused(f"a kernel may not read a clock ({clock[0]})")


def parameters(ptx: str, lowered: str, kernel: str) -> list[str]:
    """The kinds of a kernel's parameters, from the head of its PTX. Raises Refused."""
    head = re.search(rf"\.entry {re.escape(lowered)}\s*\((.*?)\)|\.entry {re.escape(lowered)}\b", ptx, re.DOTALL)
    kinds = []
    for line in (head[1] or "").split(",") if head else []:
        if not line.strip():
            continue
        number = re.match(r"\s*\.param\s+(?:\.align \d+ )?\.([a-z])(\d+)\s+[^\s\[]+\s*$", line)
        if number is None:
            raise Refused(f"{kernel} takes a structure: its parameters may be pointers and numbers")
        is_real = number[1] == "f"
        kinds.append(f"fp{number[2]}" if is_real else _KINDS[number[2]])
    return kinds


def _refuse_unlaunchable(launch: Sequence[Any], about: Mapping[str, Any], workload: str, request: Any) -> None:
    """Raises Refused for what compiles and cannot be launched."""
    kernel, _, block, dynamic, values = launch
    threads = block[0] * block[1] * block[2]
    if len(values) != len(about["kinds"]):
        raise Refused(f"{kernel} takes {len(about['kinds'])} arguments; on {workload} it is given {len(values)}")
    if threads > about["most_threads"]:
        most = about["most_threads"]
        raise Refused(f"{kernel} is bounded to {most} threads by __launch_bounds__; on {workload} it has {threads}")
    shared, has = about["shared_bytes"] + dynamic, request["shared_bytes"]
    if shared > has:
        raise Refused(f"{kernel} needs {shared} bytes of shared memory on {workload}, a block has {has}: smaller tiles")
    of_a_warp = -(-about["registers"] // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE * _WARP
    if -(-threads // _WARP) * of_a_warp > _REGISTERS:
        raise Refused(
            f"{kernel} has {threads} threads of {about['registers']} registers on {workload}, more than there are:"
            f" write __launch_bounds__({threads}) before its name, or launch fewer"
        )


def _set_dynamic_shared(variant: Variant, about: Mapping[str, dict[str, Any]], most: int) -> None:
    """What each kernel must be allowed: all that is left, if it is launched with any."""
    for kernel, facts in about.items():
        is_asked = any(launch[3] for _, launch in variant.launches if launch[0] == kernel)
        facts["dynamic_bytes"] = most - facts["shared_bytes"] if is_asked else 0


def built(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The manifest. Cubins are written beside it, by variant."""
    host, nvrtc, cubins = (file_module(Path(__file__).with_name(f"{name}.py")) for name in ("host", "nvrtc", "cubin"))
    variants: dict[str, Variant] = {}
    for name, workload, launches in traced(host, request):
        variant = variants.setdefault(name, Variant(name))
        variant.launches += [(workload, launch) for launch in launches]
    found: dict[str, Any] = {}
    compiler = nvrtc.Compiler(request["library"])
    for name in sorted(variants):
        cubin, found[name] = compiled(variants[name], request, compiler, nvrtc, cubins)
        (folder / f"{name}.cubin").write_bytes(cubin)
    return {"variants": found}


def main(path: str) -> None:
    """Answer the request in the file `path`."""
    request = json.loads(Path(path).read_text())
    folder = Path(path).parent
    try:
        manifest = built(request, folder)
    except Refused as refused:
        manifest = {"error": str(refused), "detail": refused.detail}
    except OSError as error:
        manifest = {"trouble": str(error)}
    (folder / "manifest.json").write_text(json.dumps(manifest))


if __name__ == "__main__":
    main(sys.argv[1])
