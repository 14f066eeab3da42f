"""Runs the self-test's Triton canaries in Triton's interpreter: `python interpreted_canaries.py SCRATCH_FILE`.

Prints JSON: for each canary what is found of each of its calls. Workspace that is given out again holds what was left
in it, as in a program's process. In a process of its own: a variable decides before Triton is imported.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from functools import cache
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import torch

from kevolve.judge.selftest import NAME, canaries, canary_operator, joined

WORKLOADS = ["odd", *["dim_1"] * 40]  # the second is quick, and comes often enough for those who count their calls
MARGIN = 16


@cache
def kept(shape, dtype):
    return torch.zeros(shape, dtype=dtype)


def found(operator, workload, call, entry) -> str:
    """What a judge can see of one call: nothing where all is well."""
    inputs = operator.make_inputs(workload, torch.Generator().manual_seed(call))
    x = torch.cat([inputs.x.flatten(), torch.full((MARGIN,), torch.nan)])
    before, rows = x.clone(), inputs.rows
    out = torch.full((rows + MARGIN,), torch.nan)
    entry(x[: inputs.x.numel()].view(inputs.x.shape), out[:rows], rows, inputs.dim)
    if not torch.equal(x.view(torch.int32), before.view(torch.int32)):
        return "writes to its input"
    if not out[rows:].isnan().all():
        return "writes beside its output"
    if out[:rows].isnan().any():
        return "NaN"
    return "wrong" if operator.checker(workload, inputs)({"out": out[:rows]}) else ""


def main(file: Path) -> None:
    operator = canary_operator("triton", "")
    file.write_text(joined("triton", operator))
    spec = importlib.util.spec_from_file_location(NAME, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    named = {workload.name: workload for workload in operator.workloads}
    told = {}
    for canary in canaries("triton"):
        kept.cache_clear()
        module.torch = type("torch", (), {"empty": staticmethod(lambda shape, dtype, device: kept(shape, dtype))})
        module.torch.int32, module.torch.float32 = torch.int32, torch.float32
        entry = getattr(module, canary.name)
        told[canary.name] = [found(operator, named[name], call, entry) for call, name in enumerate(WORKLOADS)]
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
