"""Bad programs as text: each does one thing that a search will sooner or later propose."""

from __future__ import annotations

HEAD = """
#include "kevolve.h"
extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
"""

RIGHT = """
    for (int64_t b = 0; b < batch; b++)
        for (int64_t d = 0; d < dim; d++) {
            float sum = 0.0f;
            for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) sum += values[t * dim + d];
            out[b * dim + d] = sum;
        }
"""


def program(body: str, before: str = "") -> str:
    """A jagged_sum program with this body."""
    return before + HEAD + body + "}\n"


def raw(number: int, *arguments: str) -> str:
    """A system call without any library: what no look at the source or its imports can be sure to find."""
    values = [*arguments, "0", "0", "0"][:3]
    return (
        f'{{ long r; __asm__ volatile("syscall" : "=a"(r) : "a"({number}L), "D"((long)({values[0]})),'
        f' "S"((long)({values[1]})), "d"((long)({values[2]})) : "rcx", "r11", "memory"); }}'
    )
