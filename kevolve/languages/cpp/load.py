"""Loads a built C++ program and binds calls of its entry point. Runs beside the program, standard library only.

The entry point is a C function whose pointers and integers come in the operator's argument order.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

Call = Callable[[], Any]


def load(descriptor: int, entry: str, arguments: int, slots: int, calls: int) -> list[Call]:
    """The program in the open file `descriptor`, as `calls` calls without parameters.

    Each reads its arguments when it is called: from `slots`, an address, where 64-bit values follow each other,
    `arguments` of them for a call. They are addresses for pointers, and the values of scalars.
    """
    library = ctypes.CDLL(f"/proc/self/fd/{descriptor}")
    function = library[entry]
    function.restype = None

    def bound(call: int) -> Call:
        first = slots + 8 * call * arguments
        return functools.partial(function, *(ctypes.c_int64.from_address(first + 8 * i) for i in range(arguments)))

    return [bound(call) for call in range(calls)]
