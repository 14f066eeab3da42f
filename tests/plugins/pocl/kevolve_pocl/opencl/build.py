"""Builds an OpenCL program: one shared object for each dtype and index type, in one confined run of PoCL."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from kevolve.languages.language import BuildError, Built, Confined, Target
from kevolve.operators.operator import Operator
from kevolve.program import Program
from kevolve_pocl.opencl import compiling

_REFUSED = re.compile(r"#\s*include|\bprintf\b|\basm\b|\bgoto\b")


class OpenCl:
    """The language: the package's docstring says what a program may be."""

    name = "opencl"
    suffix = ".cl"
    load_path = Path(__file__).parent / "load.py"
    imports: tuple[str, ...] = ()

    def screen(self, source: str, entry: str) -> str:
        """What is wrong with the text, in a sentence."""
        if not re.search(rf"\bkernel\s+void\s+{entry}\s*\(|\b__kernel\s+void\s+{entry}\s*\(", source):
            return f"there is no function kernel void {entry}(...)"
        refused = _REFUSED.search(source)
        return f"`{refused[0]}` is not allowed: a program only computes" if refused else ""

    def build(self, program: Program, operator: Operator, target: Target, confined: Confined) -> Built | BuildError:
        """Compile every variant that the workloads need."""
        variants = sorted({(w.dtype, w.index_dtype) for w in operator.workloads})
        request = {
            "entry": operator.name,
            "source": program.source,
            "variants": variants,
            "is_pointer": [argument.kind != "scalar" for argument in operator.arguments],
            "packages": str(Path(find_spec("pyopencl").origin).parent.parent),
        }
        path = confined.scratch / "request.json"
        path.write_text(json.dumps(request))
        folders = [str(Path(__file__).parent), request["packages"]]
        finished = confined.run([sys.executable, "-I", compiling.__file__, str(path)], folders)
        if finished is None:
            return BuildError("the compiler took too long", "unroll less")
        status, output = finished
        if status != 0:
            errors = [line for line in output.splitlines() if "error" in line]
            return BuildError(f"does not compile: {(errors or [output[-300:]])[0][:300]}", output[-4000:])
        binaries = {
            f"{dtype}-{index}": (confined.scratch / f"{dtype}-{index}.so").read_bytes() for dtype, index in variants
        }
        digest = hashlib.sha256(b"".join(binaries[name] for name in sorted(binaries))).hexdigest()
        return Built(digest, binaries, operator.name, {"work items": str(compiling.WORK_ITEMS)})
