"""Loads a built Triton program and launches its kernels. Runs beside the program, standard library only.

The build's archive holds the program's text, its cubins, and for which specialisation each is.
"""

from __future__ import annotations

import ctypes
import importlib.util
import io
import json
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

_CHUNK_BYTES = 64 << 20
_ALIGNMENT = 512


def file_module(path: Path) -> ModuleType:
    """A module from a file: inside the sandbox there is no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


host = file_module(Path(__file__).with_name("host.py"))


class Loaded:
    """A kernel on the device. Parameters are written into the same boxes for every launch: the driver copies them."""

    def __init__(self, driver: Any, cuda: ModuleType, cubin: bytes, about: dict[str, Any]):
        self.function = driver.function(driver.load(cubin), about["name"], about["shared_bytes"])
        kinds = [argument[0] for argument in about["key"][1] if argument[0] != "constexpr"]
        self.visible = len(kinds)
        self.pointers = cuda.packed([*kinds, *["*"] * about["hidden"]], [0] * (self.visible + about["hidden"]))
        self.boxes = self.pointers.boxes
        self.threads, self.shared_bytes = about["threads"], about["shared_bytes"]
        self.scratch_bytes = about["scratch_bytes"] if about["hidden"] else 0


class Launcher:
    """The backend that launches. Workspace is given out anew by every call; calls follow each other in one stream."""

    error: type[Exception] = host.LaunchError  # for what cannot be had

    def __init__(self, driver: Any, workspace_bytes: int):
        self.driver = driver
        self.kernels: dict[Any, Loaded] = {}
        self.launch_kernel = driver.library.cuLaunchKernel
        self.launch_kernel.argtypes = (ctypes.c_void_p, *(ctypes.c_uint,) * 7, *(ctypes.c_void_p,) * 3)
        self.left = workspace_bytes
        self.chunks: list[tuple[int, int]] = []  # address and size
        self.chunk = self.used = 0

    def launch(self, key: Any, grid: tuple[int, int, int], values: list[Any]) -> None:
        """See `host.Backend`. LaunchError for a specialisation that the build has not seen."""
        kernel = self.kernels.get(key)
        if kernel is None:
            raise host.LaunchError(f"{key.kernel} was launched with arguments that the build did not see: {key}")
        for box, value in zip(kernel.boxes, values):  # noqa: B905 (the hidden parameters follow)
            box.value = value
        if kernel.scratch_bytes:
            size = kernel.scratch_bytes * grid[0] * grid[1] * grid[2]
            kernel.boxes[kernel.visible].value = self.workspace(size, is_zero=False)
        code = self.launch_kernel(
            kernel.function, *grid, kernel.threads, 1, 1, kernel.shared_bytes, None, kernel.pointers, None
        )
        if code:
            raise self.driver.error(code)

    def begin(self) -> None:
        """A call begins: all workspace is free."""
        self.chunk = self.used = 0

    def workspace(self, size: int, *, is_zero: bool) -> int:
        """See `host.Backend`. LaunchError if the program takes more than it may."""
        size = -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT
        while self.chunk < len(self.chunks) and self.used + size > self.chunks[self.chunk][1]:
            self.chunk, self.used = self.chunk + 1, 0
        if self.chunk == len(self.chunks):
            self._grow(size)
        address = self.chunks[self.chunk][0] + self.used
        self.used += size
        if is_zero:
            self.driver.clear(address, size)
        return address

    def _grow(self, size: int) -> None:
        # Calls differ in size: without something to spare, each that is larger than all before would take new memory.
        taken = min(max(size + size // 4, _CHUNK_BYTES), self.left)
        if taken < size:
            raise self.error(f"{size >> 20} MiB more workspace was asked for than a program may have")
        self.left -= taken
        self.chunks.append((self.driver.allocate(taken), taken))
        self.used = 0


class Program:
    """A loaded program: `bind` makes calls of it."""

    def __init__(self, archive: bytes, entry: str, driver: Any, cuda: ModuleType, workspace_bytes: int):
        self.driver = driver
        self.launcher = Launcher(driver, workspace_bytes)
        with zipfile.ZipFile(io.BytesIO(archive)) as file:
            self.entry = host.Host(file.read("program.py").decode(), entry, self.launcher).entry
            for number, about in enumerate(json.loads(file.read("kernels.json"))):
                kernel, arguments, options = about["key"]
                key = host.Key(kernel, tuple(map(tuple, arguments)), tuple(map(tuple, options)))
                self.launcher.kernels[key] = Loaded(driver, cuda, file.read(f"{number}.cubin"), about)

    def resources(self) -> dict[str, int]:
        """The most that any of its kernels takes: registers of a thread, bytes spilled to local memory."""
        found = [self.driver.resources(kernel.function) for kernel in self.launcher.kernels.values()]
        return {name: max(one[name] for one in found) for name in (found[0] if found else ())}

    def bind(self, arguments: list[Any]) -> Any:
        """A call. An argument is an integer or [address, shape, dtype]."""
        given = [
            argument if isinstance(argument, int) else host.Tensor(argument[0], argument[1], host.DTYPES[argument[2]])
            for argument in arguments
        ]
        entry, begin = self.entry, self.launcher.begin

        def call() -> None:
            begin()
            entry(*given)

        return call
