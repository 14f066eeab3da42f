"""Runs Triton programs in Triton's interpreter on small workloads: `python triton_interpreter.py OPERATOR[=FILE]...`.

Prints what is wrong, one line a workload. In a process of its own: a variable decides before Triton is imported.
"""

from __future__ import annotations

import importlib.util
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from kevolve.operators.registry import load_operator
from kevolve.paths import seeds_dir

WORKLOADS = ("d1", "b0_tail", "empty_run", "tail_rows_nan", "n0", "trunc_half_nan", "nan_in_one_row", "integers")


def main(names: list[str]) -> None:
    for given in names:
        name, _, file = given.partition("=")
        operator = load_operator(name, "cuda")
        spec = importlib.util.spec_from_file_location(name, file or seeds_dir() / name / "plain.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for workload in operator.workloads:
            if workload.name in WORKLOADS:
                inputs = operator.make_inputs(workload, torch.Generator().manual_seed(1))
                contiguous = {key: tensor.contiguous() for key, tensor in inputs.tensors.items()}
                shapes, dtype = operator.output_shapes(inputs), getattr(torch, workload.dtype)
                outputs = {key: torch.full(shape, torch.nan, dtype=dtype) for key, shape in shapes.items()}
                everything = {**contiguous, **outputs, **inputs.scalars}
                getattr(module, name)(*(everything[argument.name] for argument in operator.arguments))
                mismatch = operator.checker(workload, inputs)(outputs)
                if mismatch is not None:
                    print(f"{name} on {workload.name}: {mismatch.reason} {mismatch.detail}")
        print(f"{name} done")


if __name__ == "__main__":
    main(sys.argv[1:])
