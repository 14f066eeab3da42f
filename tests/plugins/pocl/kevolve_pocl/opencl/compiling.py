"""Compiles an OpenCL program by PoCL. Run confined: `python -I compiling.py request.json`.

PoCL compiles a kernel for good when it is launched, so each variant is launched once, with all sizes zero, and what
PoCL has then put into its cache is the program.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

WORK_ITEMS = 64
PRELUDE = """
#ifdef BFLOAT16
typedef ushort VALUE;
inline float get(__global const VALUE *from, long place) { return as_float((uint)from[place] << 16); }
inline void put(__global VALUE *to, long place, float number) {
    uint bits = as_uint(number);
    to[place] = isnan(number) ? (bits >> 16) | 0x40 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}
#else
typedef float VALUE;
inline float get(__global const VALUE *from, long place) { return from[place]; }
inline void put(__global VALUE *to, long place, float number) { to[place] = number; }
#endif
#line 1
"""
_MACHINE = "numa:1(memory=4294967296) core:1 pu:1"  # where PoCL may not look for itself, it finds no memory
_INDEX_TYPES = {"int32": "int", "int64": "long"}


def main(path: str) -> None:
    """Answer the request in the file `path`: a shared object for each variant beside it."""
    request = json.loads(Path(path).read_text())
    folder = Path(path).parent
    cache = folder / "cache"
    cache.mkdir()
    os.environ |= {"POCL_CACHE_DIR": str(cache), "POCL_DEVICES": "basic", "PYOPENCL_NO_CACHE": "1"}
    os.environ["HWLOC_SYNTHETIC"] = _MACHINE
    sys.path.insert(0, request["packages"])
    import numpy
    import pyopencl

    (device,) = pyopencl.get_platforms()[0].get_devices()
    context = pyopencl.Context([device])
    queue = pyopencl.CommandQueue(context)
    nothing = pyopencl.Buffer(context, pyopencl.mem_flags.READ_WRITE, 4096)
    arguments = [nothing if is_pointer else numpy.int64(0) for is_pointer in request["is_pointer"]]
    known: set[Path] = set()
    for dtype, index in request["variants"]:
        options = [f"-DINDEX={_INDEX_TYPES[index]}", *(["-DBFLOAT16"] if dtype == "bfloat16" else [])]
        program = pyopencl.Program(context, PRELUDE + request["source"]).build(options, cache_dir=False)
        kernel = pyopencl.Kernel(program, request["entry"])
        kernel(queue, (WORK_ITEMS,), (WORK_ITEMS,), *arguments)
        queue.finish()
        (made,) = set(cache.rglob("*.so")) - known
        known.add(made)
        shutil.copy(made, folder / f"{dtype}-{index}.so")


if __name__ == "__main__":
    main(sys.argv[1])
