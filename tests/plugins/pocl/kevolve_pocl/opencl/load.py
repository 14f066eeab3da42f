"""Loads what PoCL has compiled and binds calls of it. Runs beside the program, standard library only.

The object has a function that runs one work group: PoCL's own runtime would call it the same way.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

_WORK_ITEMS = 64


class _Context(ctypes.Structure):
    """`struct pocl_context` of PoCL 3 (pocl_context.h)."""

    _fields_ = (
        ("num_groups", ctypes.c_size_t * 3),
        ("global_offset", ctypes.c_size_t * 3),
        ("local_size", ctypes.c_size_t * 3),
        ("printf_buffer", ctypes.c_void_p),
        ("printf_buffer_position", ctypes.c_void_p),
        ("printf_buffer_capacity", ctypes.c_uint32),
        ("work_dim", ctypes.c_uint32),
    )


def load(descriptor: int, entry: str, arguments: int, slots: int, calls: int) -> list[Callable[[], Any]]:
    """The program in the open file `descriptor`, as `calls` calls without parameters.

    Each finds its arguments from `slots` on, `arguments` values of 64 bits for a call.
    """
    function = ctypes.CDLL(f"/proc/self/fd/{descriptor}")[f"_pocl_kernel_{entry}_workgroup"]
    function.restype = None
    context = _Context((1, 1, 1), (0, 0, 0), (_WORK_ITEMS, 1, 1), work_dim=1)
    none = ctypes.c_size_t(0)

    def bound(call: int) -> Callable[[], Any]:
        first = slots + 8 * call * arguments
        places = (ctypes.c_void_p * arguments)(*(first + 8 * at for at in range(arguments)))
        return functools.partial(function, places, ctypes.byref(context), none, none, none)

    return [bound(call) for call in range(calls)]
