"""Every operator has a plain starting program that is right wherever its operator says what right is."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
import torch
from operator_cases import OPERATORS, drawn, names, operator_named

from kevolve.judge.call import output_dtypes
from kevolve.languages.cpp.build import FLAGS
from kevolve.languages.cpp.headers import HEADER
from kevolve.operators.operator import Inputs, Operator, Outputs, Workload
from kevolve.paths import seeds_dir

VALUE_TYPES = {"float32": "float", "bfloat16": "bfloat16"}


def built(operator: str, folder: Path) -> dict[tuple[str, str], ctypes.CDLL]:
    """The program's variants by dtype and index dtype, compiled side by side."""
    running = {}
    for dtype, index_dtype in {(w.dtype, w.index_dtype) for w in operator_named(operator).workloads}:
        library = folder / f"{dtype}-{index_dtype}.so"
        macros = [f"-DVALUE={VALUE_TYPES[dtype]}", f"-DINDEX={index_dtype}_t", "-Wall", "-Werror", f"-I{HEADER.parent}"]
        command = ["g++", *FLAGS, "-march=native", *macros, str(seeds_dir() / operator / "plain.cpp"), "-o", library]
        running[dtype, index_dtype] = library, subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for _, compiler in running.values():
        _, complaints = compiler.communicate()
        assert compiler.returncode == 0, complaints
    return {variant: ctypes.CDLL(str(library)) for variant, (library, _) in running.items()}


def answer(op: Operator, workload: Workload, inputs: Inputs, library: ctypes.CDLL) -> Outputs:
    """What the program makes of `inputs`, in memory that held NaN."""
    given = {name: tensor.contiguous() for name, tensor in inputs.tensors.items()}
    dtypes = output_dtypes(op, workload)
    outputs = {
        name: torch.full(shape, torch.nan, dtype=dtypes[name]) for name, shape in op.output_shapes(inputs).items()
    }
    call = [
        ctypes.c_int64(inputs.scalars[argument.name])
        if argument.kind == "scalar"
        else ctypes.c_void_p((given | outputs)[argument.name].data_ptr())
        for argument in op.arguments
    ]
    library[op.name](*call)
    return outputs


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_plain_program_is_right_on_every_workload(operator, tmp_path):
    libraries = built(operator, tmp_path)
    assert len(libraries) == 3, "every variant costs each candidate a compilation"
    for name in names(operator, "search", "holdout", "adversarial"):
        op, workload, inputs, expected = drawn(operator, name)
        outputs = answer(op, workload, inputs, libraries[workload.dtype, workload.index_dtype])
        assert op.check(workload, outputs, expected, inputs) is None, name
