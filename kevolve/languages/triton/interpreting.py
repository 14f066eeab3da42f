"""Runs a Triton program in Triton's interpreter. Run confined: `python -I interpreting.py request.json`.

The request names calls whose inputs and outputs are files beside it. Both are written back when a call is done, and its
number goes into the file `done`; after `seconds` no other call is begun.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any


def loaded(source: str, folder: Path) -> ModuleType:
    """The program, with its kernels to be interpreted."""
    file = folder / "program.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location("program", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(entry: Any, call: dict[str, Any], number: int, folder: Path) -> None:
    """One call, and its memory written back, guard zones and all."""
    import torch

    memory = {name: bytearray((folder / f"{number}.{name}").read_bytes()) for name in ("inputs", "outputs")}
    flat = {name: torch.frombuffer(content, dtype=torch.uint8) for name, content in memory.items() if content}

    def tensor(place: dict[str, Any]) -> Any:
        dtype = getattr(torch, place["dtype"])
        count = torch.Size(place["shape"]).numel()
        if not count:
            return torch.empty(place["shape"], dtype=dtype)
        content = flat[place["file"]][place["offset"] : place["offset"] + count * dtype.itemsize]
        return content.view(dtype).view(place["shape"])

    entry(*(one if isinstance(one, int) else tensor(one) for one in call["arguments"]))
    for name, content in memory.items():
        (folder / f"{number}.{name}").write_bytes(content)


def main(path: str) -> None:
    """Answer the request in the file `path`."""
    request = json.loads(Path(path).read_text())
    folder = Path(path).parent
    os.environ["TRITON_INTERPRET"] = "1"  # decides when Triton is imported
    sys.path.insert(0, request["packages"])
    sys.tracebacklimit = 0
    entry = getattr(loaded(request["source"], folder), request["entry"])
    began = time.monotonic()  # by now PyTorch is imported
    with open(folder / "done", "a") as done:
        for number, call in enumerate(request["calls"]):
            if number and time.monotonic() - began > request["seconds"]:
                return
            run(entry, call, number, folder)
            done.write(f"{number}\n")
            done.flush()


if __name__ == "__main__":
    main(sys.argv[1])
