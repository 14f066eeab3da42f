"""Loads a built CUDA C++ program and launches its kernels. Runs beside the program, standard library only.

The build's archive holds the translated launching function, a cubin per variant, and what each kernel takes. Workspace
and the first kernel of all are as for Triton.
"""

from __future__ import annotations

import ctypes
import importlib.util
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any


def file_module(path: Path) -> ModuleType:
    """A module from a file: inside the sandbox there is no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


host = file_module(Path(__file__).with_name("host.py"))
triton: Any = file_module(Path(__file__).parents[1] / "triton" / "load.py")
Launcher, Loaded = triton.Launcher, triton.Loaded

_BOXES: dict[str, Any] = {
    "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32, "u64": ctypes.c_uint64,
    "fp32": ctypes.c_float, "fp64": ctypes.c_double,
}  # fmt: skip
_BITS = {"i8": 8, "i16": 16, "i32": 32, "u64": 64}


class Kernel:
    """A kernel on the device. Parameters are written into the same boxes for every launch: the driver copies them."""

    def __init__(self, driver: Any, module: int, about: Mapping[str, Any]):
        self.function = driver.function(module, about["name"], about["dynamic_bytes"])
        self.kinds = about["kinds"]
        self.boxes = [_BOXES[kind](0) for kind in self.kinds]
        self.pointers: Any = (ctypes.c_void_p * len(self.boxes))(*(ctypes.addressof(box) for box in self.boxes))


def value_of(kind: str, given: Any, name: str) -> int | float:
    """An argument as a parameter of this kind. LaunchError where it does not fit."""
    if type(given) is host.Pointer:
        given = given.address
        if kind == "u64":
            return int(given)
    if kind in ("fp32", "fp64"):
        return float(given)
    value, bits = int(given), _BITS[kind]
    if not -(1 << bits - 1) <= value < 1 << bits:
        raise host.LaunchError(f"{name} was given {value}, and its parameter has {bits} bits")
    return value


class Variant:
    """The backend that launches (`host.Backend`), for one pair of VALUE and INDEX.

    Workspace is what all variants of a program share. Calls follow each other in one stream.
    """

    def __init__(self, launcher: Any, kernels: Mapping[str, Kernel]):
        self.launcher = launcher
        self.kernels = kernels
        self.workspace = launcher.workspace

    def launch(
        self, name: str, grid: Sequence[int], block: Sequence[int], shared_bytes: int, values: Sequence[Any]
    ) -> None:
        """LaunchError for a kernel that the build has not seen launched, or other arguments than it takes."""
        kernel = self.kernels.get(name)
        if kernel is None or len(values) != len(kernel.boxes):
            raise host.LaunchError(f"{name} was launched in a way that the build did not see")
        for box, kind, given in zip(kernel.boxes, kernel.kinds, values):  # noqa: B905 (the lengths are equal)
            box.value = value_of(kind, given, name)
        code = self.launcher.launch_kernel(kernel.function, *grid, *block, shared_bytes, None, kernel.pointers, None)
        if code:
            raise self.launcher.driver.error(code)

    def clear(self, address: int, size: int) -> None:
        """Zeros, in the order of the launches."""
        self.launcher.driver.clear(address, size)


class Program:
    """A loaded program: `bind` makes calls of it."""

    def __init__(self, archive: bytes, entry: str, driver: Any, cuda: ModuleType, workspace_bytes: int):
        self.driver = driver
        self.launcher = Launcher(driver, workspace_bytes)
        self.launcher.error = host.LaunchError
        self.entries: dict[str, Callable[..., None]] = {}
        self.functions: list[int] = []
        with zipfile.ZipFile(io.BytesIO(archive)) as file:
            about = json.loads(file.read("program.json"))
            self.host = host.Host(file.read("host.txt").decode(), about["kernels"], about["kinds"])
            for variant, kernels in about["variants"].items():
                module = driver.load(file.read(f"{variant}.cubin"))
                loaded = {name: Kernel(driver, module, kernel) for name, kernel in kernels.items()}
                self.functions += [kernel.function for kernel in loaded.values()]
                self.entries[variant] = self.host.entry(variant, Variant(self.launcher, loaded))

    def resources(self) -> dict[str, int]:
        """The most that any of its kernels takes: registers of a thread, bytes spilled to local memory."""
        found = [self.driver.resources(function) for function in self.functions]
        return {name: max(one[name] for one in found) for name in (found[0] if found else ())}

    def bind(self, arguments: list[Any]) -> Any:
        """A call. An argument is an integer or [address, shape, dtype]."""
        variant = self.host.variant([argument[2] for argument in arguments if not isinstance(argument, int)])
        if variant not in self.entries:
            raise host.LaunchError(f"the program was not built for {variant}")
        given = [
            argument if isinstance(argument, int) else host.Pointer(argument[0], host.SIZES[argument[2]])
            for argument in arguments
        ]
        entry, begin = self.entries[variant], self.launcher.begin

        def call() -> None:
            begin()
            entry(*given)

        return call
