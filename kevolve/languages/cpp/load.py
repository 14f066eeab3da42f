"""Loads a built C++ program and binds calls of its entry point. Runs beside the program, standard library only.

The entry point is a C function whose pointers and integers come in the operator's argument order.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

Call = Callable[[], Any]


def load(descriptor: int, entry: str, arguments: list[str]) -> Callable[[int, int, list[int]], Call]:
    """The program in the open file `descriptor`. `arguments` are the kinds: input, output or scalar.

    Returns a binder: (address of inputs, address of outputs, one number per argument) -> a call without
    arguments. A number is an offset in bytes for a pointer and the value for a scalar.
    """
    library = ctypes.CDLL(f"/proc/self/fd/{descriptor}")
    function = library[entry]
    function.restype = None

    def bind(inputs: int, outputs: int, numbers: list[int]) -> Call:
        base = {"input": inputs, "output": outputs}
        values: list[Any] = [
            ctypes.c_int64(number) if kind == "scalar" else ctypes.c_void_p(base[kind] + number)
            for kind, number in zip(arguments, numbers, strict=True)
        ]
        return functools.partial(function, *values)

    return bind
