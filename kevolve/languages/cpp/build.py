"""Builds a C++ program: one shared object per dtype and index type, by macros, in one confined compiler run."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

from kevolve.languages.cpp.headers import include_folder
from kevolve.languages.cpp.instructions import FORBIDDEN, ODD
from kevolve.languages.cpp.suspicions import suspicions
from kevolve.languages.cpp.symbols import forbidden_symbols
from kevolve.languages.language import BuildError, Built, Confined, Target
from kevolve.operators.operator import Operator
from kevolve.program import Program

# Nothing that changes results (-ffast-math): only the promise that nobody reads errno or traps. The vectoriser is
# -O3's; the rest of -O3 doubled the time of a build and made no evolved program faster.
FLAGS = (
    *("-std=c++17", "-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic", "-fopenmp"),
    *("-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-Wl,--build-id=none"),
)

_VALUE_TYPES = {"float32": "float", "bfloat16": "bfloat16"}
_INDEX_TYPES = {"int32": "int32_t", "int64": "int64_t"}


def variant(dtype: str, index_dtype: str) -> str:
    """The name of the binary that serves workloads of this dtype and index type."""
    return f"{dtype}-{index_dtype}"


def macros(dtype: str, index_dtype: str) -> list[str]:
    """What tells the compiler which variant it builds."""
    return [f"-DVALUE={_VALUE_TYPES[dtype]}", f"-DINDEX={_INDEX_TYPES[index_dtype]}"]


class Cpp:
    """The C++ language: see `include/kevolve.h` for what a program may rely on."""

    name = "cpp"
    suffix = ".cpp"
    load_path = Path(__file__).parent / "load.py"
    imports: tuple[str, ...] = ()

    def build(self, program: Program, operator: Operator, target: Target, confined: Confined) -> Built | BuildError:
        """Compile every variant that the workloads need, then look at what the binaries import."""
        variants = sorted({(w.dtype, w.index_dtype) for w in operator.workloads})
        source = confined.scratch / f"{operator.name}.cpp"
        source.write_text(program.source)
        include = include_folder(target.toolchain, (*FLAGS, *target.flags))
        script = _script(source.name, variants, target, include)
        finished = confined.run(["/bin/sh", "-c", script], [str(include)])
        if finished is None:
            return BuildError("the compiler took too long", "simplify templates, unrolling or constant tables")
        status, output = finished
        if status != 0:
            return BuildError(_first_error(output), output[:4000])
        binaries = {}
        for dtype, index_dtype in variants:
            name = variant(dtype, index_dtype)
            binaries[name] = (confined.scratch / f"{name}.so").read_bytes()
        refused = forbidden_symbols((confined.scratch / "symbols").read_text())
        if refused:
            return BuildError(
                f"the program uses {', '.join(refused)}: a program may only compute, allocate memory and use OpenMP"
            )
        used = (confined.scratch / "instructions").read_text().split()
        convicted = sorted({FORBIDDEN[name] for name in used if name in FORBIDDEN})
        state = "\n".join((confined.scratch / name).read_text() for name in ("sections", "names"))
        digest = hashlib.sha256(b"".join(binaries[name] for name in sorted(binaries))).hexdigest()
        facts = {
            "warnings": output[:2000],
            "flags": " ".join(FLAGS),
            "suspicions": suspicions(program.source, state, used),
            "refused": f"the program {' and '.join(convicted)}, by whatever name" if convicted else "",
        }
        return Built(digest, binaries, operator.name, facts)


def _script(source: str, variants: list[tuple[str, str]], target: Target, include: Path) -> str:
    """A shell script that stops at the first error: all compilations, then imports and sections of the binaries."""
    lines = ["set -e"]
    for dtype, index_dtype in variants:
        name = variant(dtype, index_dtype)
        chosen = macros(dtype, index_dtype)
        command = ["g++", *FLAGS, *target.flags, *chosen, f"-I{include}", source, "-o", f"{name}.so"]
        lines.append(shlex.join(command))
    lines.append("nm -D --undefined-only --format=posix *.so > symbols")
    lines.append("size -A *.so > sections")
    lines.append("nm --format=posix *.so > names")
    wanted = "|".join([*FORBIDDEN, *ODD])
    lines.append(
        f"objdump -d --no-show-raw-insn *.so | grep -owE '\\s({wanted})(\\s|$)' | sort -u > instructions || true"
    )
    return "\n".join(lines)


def _first_error(output: str) -> str:
    for line in output.splitlines():
        if "error:" in line:
            return f"does not compile: {line.strip()[:300]}"
    last = output.strip().splitlines()[-1:] or ["the compiler failed without a message"]
    return f"does not compile: {last[0][:300]}"
