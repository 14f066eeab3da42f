"""NVIDIA's run-time compiler through ctypes: CUDA C++ to a cubin, without a device. Standard library only.

It comes as a package (`nvidia-cuda-nvrtc`, its headers in `nvidia-cuda-runtime`) or with the CUDA toolkit. Source: the
NVRTC documentation, and nvrtc.h.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MISSING = "NVRTC is not installed: pip install nvidia-cuda-nvrtc nvidia-cuda-runtime"
_LIBRARIES = ("libnvrtc.so.13", "libnvrtc.so.12")
_OUT_OF_MEMORY, _BUILTINS_FAILED = 1, 7


@dataclass(frozen=True)
class Installation:
    """Where the compiler is, and the folders that it reads."""

    library: str
    include: str


@cache
def installation() -> Installation:
    """The one here, the packages' before the toolkit's. OSError where there is none."""
    for libraries, include in _places():
        for name in _LIBRARIES:
            if (libraries / name).exists() and (include / "cuda_bf16.h").exists():
                return Installation(str(libraries / name), str(include))
    raise OSError(MISSING)


def _places() -> Iterator[tuple[Path, Path]]:
    spec = find_spec("nvidia")
    for folder in map(Path, (spec.submodule_search_locations or []) if spec else []):
        yield folder / "cu13" / "lib", folder / "cu13" / "include"
        yield folder / "cuda_nvrtc" / "lib", folder / "cuda_runtime" / "include"
    for root in (os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"):
        if root:
            yield Path(root, "lib64"), Path(root, "include")


class CompileError(Exception):
    """The compiler's words."""


@dataclass(frozen=True)
class Compiled:
    """A cubin, its PTX, and the kernels' names in both by what they were asked for as."""

    cubin: bytes
    ptx: str
    names: dict[str, str]


class Compiler:
    """The library, loaded."""

    def __init__(self, library: str):
        # It looks for its second library by name only, where a folder of packages is not searched.
        for beside in sorted(Path(library).parent.glob("libnvrtc-builtins.so.*")):
            ctypes.CDLL(str(beside), ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(library)

    @property
    def version(self) -> str:
        """Such as 13.0."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._do("Version", ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    def compiled(self, source: str, options: Sequence[str], kernels: Sequence[str]) -> Compiled:
        """Compile `source`; `kernels` are C++ expressions, such as `sum<VALUE, 4>`. Raises CompileError."""
        program = ctypes.c_void_p()
        self._do("CreateProgram", ctypes.byref(program), source.encode(), b"program.cu", 0, None, None)
        for name in kernels:
            self._do("AddNameExpression", program, name.encode())
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        code = self.library.nvrtcCompileProgram(program, len(options), words)
        if code:
            said = self._text("ProgramLog", program).decode(errors="replace").strip("\0\n")
            if code in (_OUT_OF_MEMORY, _BUILTINS_FAILED):
                raise OSError(f"NVRTC cannot work here: {said or code}")
            raise CompileError(said or f"NVRTC ended with {code}")
        names = {}
        for name in kernels:
            lowered = ctypes.c_char_p()
            self._do("GetLoweredName", program, name.encode(), ctypes.byref(lowered))
            names[name] = (lowered.value or b"").decode()
        found = Compiled(self._text("CUBIN", program), self._text("PTX", program).decode().strip("\0"), names)
        self._do("DestroyProgram", ctypes.byref(program))
        return found

    def _text(self, what: str, program: Any) -> bytes:
        size = ctypes.c_size_t()
        self._do(f"Get{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._do(f"Get{what}", program, buffer)
        return buffer.raw

    def _do(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, f"nvrtc{name}")(*arguments)
        if code:
            raise CompileError(f"nvrtc{name} failed with {code}")


def first_error(said: str) -> str:
    """The first error of a compiler's output, with its line."""
    found = re.search(r"^(?P<file>\S+?)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<what>.*)$", said, re.MULTILINE)
    if found is None:
        return (said.strip().splitlines() or ["the compiler failed without a message"])[0][:300]
    place = "line" if found["file"] == "program.cu" else f"{Path(found['file']).name} line"
    return f"{place} {found['line']}: {found['what'][:300]}"
