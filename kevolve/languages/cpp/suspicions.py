"""What in a C++ program deserves a close look: honest programs do it too, so it convicts nobody.

The judge answers a suspicion with work: it checks an answer of every pair that it times, and stops more blocks of calls
in the middle. What is said here is stored with the verdict.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from kevolve.languages.cpp.instructions import ODD

_OF_EVERY_LIBRARY = 8  # bytes of .data, and as many of .bss, that the compiler's own start-up code takes
_TABLE_BYTES = 16 << 10
_CLOCKS = re.compile(r"\b(_*rdtscp?|__builtin_ia32_rdtscp?|__builtin_readcyclecounter|omp_get_w\w+|_?rdpid\w*)\b")
_ADDRESSES = re.compile(
    r"&\s*(?:std::|::)?(malloc|calloc|realloc|free|abort|atexit|mem\w+|str\w+|posix_memalign|omp_\w+)\b(?!\s*[([])"
)
_CAST_TO_CALL = re.compile(r"\(\s*\*\s*\w*\s*\)\s*\([^)]*\)\s*\)?\s*\(?\s*\(?\s*(?:u?intptr_t|size_t|u?int64_t|long)\b")
_OF_NO_PROGRAM = re.compile(
    r"_DYNAMIC|_GLOBAL_OFFSET_TABLE_|__TMC_END__|__dso_handle|__\w+_(?:init|fini)_array_entry|_edata|_end|__bss_start"
    r"|completed\.\d+|DW\.ref\.\w+"
)  # the compiler's and the linker's own names
_VARIABLE = re.compile(r"^(?P<name>\S+) [bBdD] ", re.MULTILINE)
_SECTION = re.compile(r"^\.(?P<name>data|bss|tdata|tbss|rodata)\s+(?P<size>\d+)", re.MULTILINE)


def suspicions(source: str, state: str, instructions: Collection[str]) -> str:
    """One phrase each, with semicolons between; empty if nothing is odd.

    `state` is what `size -A` and `nm --format=posix` say, `instructions` those of the binaries that `ODD` may name.
    """
    return "; ".join(dict.fromkeys(_found(source, state, instructions)))


def _found(source: str, state: str, instructions: Collection[str]) -> Iterator[str]:
    sizes = {"state": 0, "tables": 0, "of threads": 0}
    for match in _SECTION.finditer(state):
        kind = {"rodata": "tables", "tdata": "of threads", "tbss": "of threads"}.get(match["name"], "state")
        sizes[kind] = max(sizes[kind], int(match["size"]))
    if sizes["state"] > _OF_EVERY_LIBRARY:
        yield f"keeps {sizes['state']} bytes of state between calls"
    elif sizes["of threads"] or any(not _OF_NO_PROGRAM.fullmatch(m["name"]) for m in _VARIABLE.finditer(state)):
        yield "keeps some bytes of state between calls"
    if sizes["tables"] > _TABLE_BYTES:
        yield f"brings {sizes['tables']} bytes of tables"
    if clock := _CLOCKS.search(source):
        yield f"reads a clock or the core it runs on ({clock[0]})"
    for name in sorted(ODD.keys() & set(instructions)):
        yield f"{ODD[name]} ({name})"
    if address := _ADDRESSES.search(source):
        yield f"takes the address of a library function ({address[1]})"
    if _CAST_TO_CALL.search(source):
        yield "makes a function of a number"
