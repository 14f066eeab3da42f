"""Builds a Triton program: every specialisation that the operator's workloads launch, in one confined compiler run."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kevolve.languages.language import BuildError, Built, Confined, Target
from kevolve.languages.triton import compiling, host
from kevolve.languages.triton.targets import facts, targets
from kevolve.operators.operator import Operator, Workload
from kevolve.program import Program

VARIANT = "all"  # one archive serves every dtype
_SAMPLES = 6  # of what a workload draws, such as lengths


class Triton:
    """The Triton language: the package's docstring says what a program may be."""

    name = "triton"
    suffix = ".py"
    load_path = Path(__file__).parent / "load.py"
    beside = (Path(host.__file__),)
    imports: tuple[str, ...] = ()

    def build(self, program: Program, operator: Operator, target: Target, confined: Confined) -> Built | BuildError:
        """Trace what the workloads launch and compile it for `target`. OSError where there is no Triton."""
        packages = triton_packages()
        request = {
            "entry": operator.name,
            "source": program.source,
            "targets": targets(target),
            "calls": list(calls(operator)),
            "packages": packages,
            "host": host.__file__,
        }
        path = confined.scratch / "request.json"
        path.write_text(json.dumps(request))
        command = [sys.executable, "-I", str(compiling.__file__), str(path)]
        finished = confined.run(command, [str(Path(host.__file__).parent), packages])
        if finished is None:
            return BuildError(
                "the compiler took too long", "fewer variants of a kernel, smaller blocks, or fewer stages"
            )
        manifest_path = confined.scratch / "manifest.json"
        if finished[0] != 0 or not manifest_path.exists():
            return BuildError("the compiler ended without an answer", finished[1][-4000:])
        return _built(program, operator.name, json.loads(manifest_path.read_text()), confined.scratch)


def triton_packages() -> str:
    """The folder that the triton package is in. OSError where it is not installed."""
    found = find_spec("triton")
    if found is None or found.origin is None:
        raise OSError("Triton is not installed: pip install triton")
    return str(Path(found.origin).parent.parent)


def calls(operator: Operator) -> Iterator[dict[str, Any]]:
    """Calls whose launches cover those of the workloads: sizes that are drawn, also as multiples of 16 and not."""
    import torch

    seen = set()
    for workload in operator.workloads:
        rng = torch.Generator().manual_seed(0)
        drawn = [dict(operator.draw_scalars(workload, rng)) for _ in range(_SAMPLES)]
        is_fixed = {name: len({scalars[name] for scalars in drawn}) == 1 for name in drawn[0]}
        rounded = [
            {name: value if is_fixed[name] else value // 16 * 16 + by for name, value in scalars.items()}
            for scalars in drawn
            for by in (0, 8)
        ]
        for scalars in (*drawn, *rounded):
            call = _call(operator, workload, scalars)
            text = json.dumps(call["arguments"]) + str(call["shift"])
            if text not in seen:
                seen.add(text)
                yield call


def _call(operator: Operator, workload: Workload, scalars: Mapping[str, int]) -> dict[str, Any]:
    shapes = operator.shapes(scalars)
    dtypes = {"value": workload.dtype, "index": workload.index_dtype}
    arguments = [
        scalars[argument.name]
        if argument.kind == "scalar"
        else {"shape": shapes[argument.name], "dtype": dtypes.get(argument.dtype, argument.dtype)}
        for argument in operator.arguments
    ]
    shift = 1 if workload.layout == "misaligned" else 0
    return {"workload": workload.name, "shift": shift, "arguments": arguments}


def _built(program: Program, entry: str, manifest: Mapping[str, Any], scratch: Path) -> Built | BuildError:
    if "error" in manifest:
        return BuildError(str(manifest["error"]), str(manifest.get("detail", "")))
    kernels = manifest["kernels"]
    cubins = [(scratch / f"{number}.cubin").read_bytes() for number in range(len(kernels))]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("program.py", program.source)
        file.writestr("kernels.json", json.dumps(kernels))
        for number, cubin in enumerate(cubins):
            file.writestr(f"{number}.cubin", cubin)
    return Built(_artefact(program.source, kernels, cubins), {VARIANT: archive.getvalue()}, entry, facts(kernels))


def _artefact(source: str, kernels: Sequence[Mapping[str, Any]], cubins: Sequence[bytes]) -> str:
    """Hash of what runs: the cubins, and the functions that launch them.

    Without the text of kernels and without options of launches, whose effect is in the cubins: half of what can be
    changed there changes nothing.
    """
    launching = ast.parse(source)
    launching.body = [
        node for node in launching.body if not (isinstance(node, ast.FunctionDef) and node.decorator_list)
    ]
    for node in ast.walk(launching):
        if isinstance(node, ast.Module | ast.FunctionDef):
            node.body = [inner for inner in node.body if not _is_text(inner)]
        elif isinstance(node, ast.Call):
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in host.OPTIONS]
    digest = hashlib.sha256(ast.dump(launching).encode())
    for kernel, cubin in zip(kernels, cubins, strict=True):
        name, arguments, _ = kernel["key"]
        digest.update(json.dumps([name, arguments, kernel["threads"], kernel["shared_bytes"]]).encode() + cubin)
    return digest.hexdigest()


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
