"""Builds a CUDA C++ program: a cubin per dtype and index type, in one confined compiler run."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kevolve.languages.cuda import compiling
from kevolve.languages.cuda.nvrtc import installation
from kevolve.languages.language import BuildError, Built, Confined, Target
from kevolve.languages.triton import host as triton_host
from kevolve.languages.triton import load as triton_load
from kevolve.languages.triton.build import VARIANT, calls
from kevolve.operators.operator import Operator
from kevolve.program import Program

if TYPE_CHECKING:
    from kevolve.languages.cuda.translate import Translated

_HERE = Path(__file__).parent
_INCLUDE = _HERE / "include"


class Cuda:
    """The CUDA C++ language: the package's docstring says what a program may be."""

    name = "cuda"
    suffix = ".cu"
    load_path = _HERE / "load.py"
    beside = (_HERE / "host.py", Path(triton_load.__file__), Path(triton_host.__file__))
    imports: tuple[str, ...] = ()

    def screen(self, source: str, entry: str) -> str:
        """See `screen.check`."""
        from kevolve.languages.cuda.screen import check

        return check(source, entry)

    def build(self, program: Program, operator: Operator, target: Target, confined: Confined) -> Built | BuildError:
        """Trace what the workloads launch and compile it for `target`. OSError where there is no NVRTC."""
        # The grammar is loaded by who builds, not by everybody who asks what languages there are.
        from kevolve.languages.cuda.expressions import Refused
        from kevolve.languages.cuda.translate import translated

        compiler = installation()
        try:
            ours = translated(program.source, operator.name)
        except Refused as refused:
            return BuildError(str(refused))
        if wrong := _wrong_arguments(ours, operator):
            return BuildError(wrong)
        folders = [str(_INCLUDE), compiler.include]
        request = {
            "entry": operator.name,
            "source": ours.checked,
            "host": ours.python,
            "kernels": ours.kernels,
            "always": ours.always,
            "kinds": [argument.dtype for argument in operator.arguments if argument.kind != "scalar"],
            "calls": list(calls(operator)),
            "library": compiler.library,
            "include": folders,
            "architecture": target.architecture,
            "shared_bytes": _shared_bytes(target),
        }
        path = confined.scratch / "request.json"
        path.write_text(json.dumps(request))
        command = [sys.executable, "-I", str(compiling.__file__), str(path)]
        finished = confined.run(command, [str(_HERE), str(Path(compiler.library).parent), *folders])
        if finished is None:
            return BuildError("the compiler took too long", "fewer template instances, less unrolling, smaller tables")
        manifest_path = confined.scratch / "manifest.json"
        if finished[0] != 0 or not manifest_path.exists():
            return BuildError("the compiler ended without an answer", finished[1][-4000:])
        return _built(ours, request, json.loads(manifest_path.read_text()), confined.scratch)


def _shared_bytes(target: Target) -> int:
    """Of a block on the target. OSError for what is no NVIDIA GPU."""
    flags = dict(flag.split("=") for flag in target.flags)
    if not target.architecture.startswith("sm_") or "shared_bytes" not in flags:
        raise OSError(f"CUDA C++ programs are not built for {target.architecture}")
    return int(flags["shared_bytes"])


def _wrong_arguments(ours: Translated, operator: Operator) -> str:
    wanted = tuple(argument.kind != "scalar" for argument in operator.arguments)
    if wanted == ours.is_pointer:
        return ""
    listed = ", ".join(
        f"{'a pointer ' if is_pointer else ''}{argument.name}"
        for is_pointer, argument in zip(wanted, operator.arguments, strict=True)
    )
    return f"{operator.name} takes {len(wanted)} arguments: {listed}"


def _built(
    ours: Translated, request: Mapping[str, Any], manifest: Mapping[str, Any], scratch: Path
) -> Built | BuildError:
    if "trouble" in manifest:
        raise OSError(manifest["trouble"])
    if "error" in manifest:
        return BuildError(str(manifest["error"]), str(manifest.get("detail", "")))
    about = {"kernels": ours.kernels, "kinds": request["kinds"], "variants": manifest["variants"]}
    archive = io.BytesIO()
    digest = hashlib.sha256(ours.python.encode() + json.dumps(about).encode())
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("host.txt", ours.python)
        file.writestr("program.json", json.dumps(about))
        for variant in manifest["variants"]:
            cubin = (scratch / f"{variant}.cubin").read_bytes()
            digest.update(cubin)
            file.writestr(f"{variant}.cubin", cubin)
    facts = _facts([kernel for variant in manifest["variants"].values() for kernel in variant.values()])
    return Built(digest.hexdigest(), {VARIANT: archive.getvalue()}, request["entry"], facts)


def _facts(kernels: list[Mapping[str, Any]]) -> dict[str, str]:
    """What the program takes, the most of any of its kernels."""
    found = {"specialisations": str(len(kernels))}
    for name in ("registers", "shared_bytes", "local_bytes"):
        found[name] = str(max((kernel[name] for kernel in kernels), default=0))
    return found
