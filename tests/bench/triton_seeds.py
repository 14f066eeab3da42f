"""How fast the Triton starting programs are, and variants of them, on this machine's NVIDIA GPU.

    python tests/bench/triton_seeds.py [OPERATOR ...] [--seeds plain tuned] [--workloads main large ...] [--variants]
        [--edits] [--compile-only]

For each program and workload: microseconds a call (median of some, on inputs that exceed the cache), gigabytes a second
by the operator's least bytes, that rate's share of this machine's copy rate, and whether part of the answer is right.
Kernels are built and launched as the judge does it, but unconfined and unpaired: this finds out what is worth judging.

--variants tries other numbers for the constants of hand-written programs (VARIANTS), --edits what single edits and some
chains of them (CHAINS) make of plain programs. --compile-only stops after the build, and needs no GPU.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from kevolve.languages.triton import compiling, host
from kevolve.languages.triton.build import _call, triton_packages
from kevolve.languages.triton.edits import EDITS, Source
from kevolve.operators.operator import Operator, Workload
from kevolve.operators.registry import load_operator, operator_names
from kevolve.paths import seeds_dir

WORKLOADS = ("main", "main_bfloat16", "large", "large_bfloat16")
TARGET = {"triton": ["cuda", 90, 32], "architecture": "sm_90", "shared_bytes": 232448}
CACHE_BYTES = 200 << 20  # that a round of calls must exceed
VARIANTS: dict[str, tuple[str, ...]] = {
    "jagged_sum": ("STAGES=1", "STAGES=2", "STAGES=4", "ROWS=16", "ROWS=64", "ROWS=64 WARPS=8", "COLUMNS=256 ROWS=16"),
    "jagged_softmax": (
        "WARPS=16", "COLUMNS=16 WARPS=4", "COLUMNS=16 WARPS=8", "COLUMNS=64 WARPS=16", "COLUMNS=64 WARPS=8",
        "COLUMNS=8 WARPS=4",
    ),
    "jagged_layer_norm": (
        "HELD=16384", "HELD=16384 BLOCK=8192", "BLOCK=8192", "WARPS=8", "STAGES=1", "STAGES=2", "STAGES=4",
        "WARPS=32 HELD=16384 BLOCK=8192", "HELD=2048 BLOCK=8192 STAGES=2",
    ),
    "jagged_dense_bmm": (
        "ROWS=64 WARPS=4", "ROWS=64 COLUMNS=256", "COLUMNS=256", "DEPTH=128 STAGES=2", "DEPTH=32 STAGES=4",
        "DEPTH32=16", "ROWS32=128 WARPS32=8", "ROWS32=128 WARPS32=8 DEPTH32=16", "COLUMNS32=64", "STAGES32=2",
        "ROWS32=32 COLUMNS32=64",
    ),
    **dict.fromkeys(
        ("jagged_to_padded_dense", "dense_to_jagged", "jagged_dense_elementwise_add"),
        ("BLOCK=2048", "BLOCK=8192", "BLOCK=8192 WARPS=8", "BLOCK=1024 WARPS=2", "BLOCK=16384 WARPS=8"),
    ),
}  # fmt: skip
VARIANTS["jagged_mean"] = VARIANTS["jagged_sum"]
# What is done to plain programs: `edit@site value ...`, one after the other.
CHAINS: dict[str, tuple[str, ...]] = {
    "jagged_sum": (
        "order@sum_segment way=reversed, offset32@sum_segment, pipeline@loop.0 count=3",
        "order@sum_segment way=reversed, offset32@sum_segment, block@ROWS size=16",
        "guard@sum_segment, order@sum_segment way=reversed, offset32@sum_segment, unroll@loop.0 factor=2",
    ),
    "jagged_mean": (
        "order@average_segment way=reversed, offset32@average_segment, pipeline@loop.0 count=3",
        "guard@average_segment, order@average_segment way=reversed, offset32@average_segment, unroll@loop.0 factor=2",
    ),
    "jagged_softmax": (
        "hold@softmax_segment rows=512 tiers=2, order@softmax_segment way=reversed, offset32@softmax_segment",
        "hold@softmax_segment rows=512 tiers=2, order@softmax_segment way=reversed, offset32@softmax_segment,"
        " block@COLUMNS size=16",
        "hold@softmax_segment rows=512 tiers=3, order@softmax_segment way=reversed, offset32@softmax_segment,"
        " block@COLUMNS size=16, warps@launch.0 count=4",
        "online_softmax@softmax_segment, order@softmax_segment way=reversed, offset32@softmax_segment",
    ),
    "jagged_layer_norm": (
        "hold@normalise_segment rows=8192 tiers=1, one_pass_variance@normalise_segment, offset32@normalise_segment,"
        " warps@launch.0 count=8",
        "one_pass_variance@normalise_segment, backwards@loop.1, offset32@normalise_segment, block@BLOCK size=8192,"
        " warps@launch.0 count=16",
        "one_pass_variance@normalise_segment, offset32@normalise_segment, pipeline@loop.0 count=3, backwards@loop.1",
    ),
    "jagged_to_padded_dense": (
        "order@pad_segment way=reversed",
        "order@pad_segment way=reversed, offset32@pad_segment",
        "order@pad_segment way=reversed, offset32@pad_segment, block@ROWS size=16",
    ),
    "dense_to_jagged": (
        "order@unpad_segment way=reversed, offset32@unpad_segment",
        "spread@unpad_segment parts=8, order@unpad_segment way=last_first, offset32@unpad_segment",
    ),
    "jagged_dense_elementwise_add": (
        "order@add_to_segment way=reversed, offset32@add_to_segment",
        "spread@add_to_segment parts=8, order@add_to_segment way=last_first, offset32@add_to_segment",
    ),
    "jagged_dense_bmm": tuple(
        f"order@multiply_segment way=reversed, offset32@multiply_segment, block@ROWS size={rows}, block@COLUMNS"
        f" size={columns}, block@DEPTH size={depth}, warps@launch.0 count={warps}, stages@launch.0 count=3,"
        f" precision@dot.0 way={way}"
        for rows, columns, depth, warps in ((64, 128, 32, 4), (128, 128, 32, 8), (64, 64, 32, 4))
        for way in ("tf32x3", "bf16x6")
    ),
}


@dataclass(frozen=True)
class Candidate:
    """A program under a name that says where it is from."""

    operator: str
    name: str
    source: str


def candidates(operator: str, options: argparse.Namespace) -> Iterator[Candidate]:
    """The programs to try for an operator."""
    for seed in options.seeds:
        file = seeds_dir() / operator / f"{seed}.py"
        if not file.exists():
            continue
        source = file.read_text()
        yield Candidate(operator, seed, source)
        if options.variants and seed != "plain":
            for variant in VARIANTS.get(operator, ()):
                yield Candidate(operator, f"{seed} {variant}", with_constants(source, variant))
        if options.edits and seed == "plain":
            for chain in CHAINS.get(operator, ()):
                yield Candidate(operator, f"{seed} {chain}", edited(source, chain))


def with_constants(source: str, variant: str) -> str:
    """The program with other numbers: `NAME=VALUE NAME=VALUE`."""
    for change in variant.split():
        name, value = change.split("=")
        source, count = re.subn(rf"^{name} = \d+", f"{name} = {value}", source, flags=re.MULTILINE)
        if count != 1:
            raise SystemExit(f"there is no constant {name}")
    return source


def edited(source: str, chain: str) -> str:
    """The program after a chain of edits: `edit@site parameter=value, edit@site ...`."""
    for link in chain.split(", "):
        place, *settings = link.split()
        name, site = place.split("@")
        values = {key: int(value) if value.isdigit() else value for key, value in (s.split("=") for s in settings)}
        changed = EDITS[name].apply(Source(source), site, values)
        if changed is None:
            raise SystemExit(f"{link} does not apply")
        source = changed
    return source


def drawn(operator: Operator, workload: Workload, device: str, seed: int) -> Any:
    import torch

    return operator.make_inputs(workload, torch.Generator().manual_seed(seed), device)


def archive(candidate: Candidate, names: Sequence[str]) -> bytes | str:
    """The built program for these workloads, as `load.py` takes it; or what is wrong with it."""
    import torch

    operator = load_operator(candidate.operator, "cuda")
    calls = []
    for workload in operator.workloads:
        if workload.name in names:
            scalars = dict(operator.draw_scalars(workload, torch.Generator().manual_seed(0)))
            for total in (scalars["total"] // 16 * 16, scalars["total"] // 16 * 16 + 8):
                calls.append(_call(operator, workload, {**scalars, "total": total}))
    with tempfile.TemporaryDirectory() as folder:
        request = {"host": host.__file__, "source": candidate.source, "entry": candidate.operator, "calls": calls}
        path = Path(folder, "request.json")
        path.write_text(json.dumps({**request, "targets": [TARGET], "packages": triton_packages()}))
        command = [sys.executable, "-I", str(compiling.__file__), str(path)]
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode:
            return ended.stderr[-300:]
        manifest = json.loads(Path(folder, "manifest.json").read_text())
        if "error" in manifest:
            return f"{manifest['error']} {manifest['detail'][:300]}"
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as file:
            file.writestr("program.py", candidate.source)
            file.writestr("kernels.json", json.dumps(manifest["kernels"]))
            for number in range(len(manifest["kernels"])):
                file.writestr(f"{number}.cubin", Path(folder, f"{number}.cubin").read_bytes())
    return packed.getvalue()


def resources(built: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(built)) as file:
        kernels = json.loads(file.read("kernels.json"))
    return " ".join(f"{k['registers']}r/{k['threads']}t/{k['shared_bytes'] >> 10}K" for k in kernels)


class Timer:
    """Times built programs on a workload, on the same inputs."""

    def __init__(self, operator: Operator, workload: Workload, copies: int = 0):
        import torch

        self.operator, self.workload = operator, workload
        first = drawn(operator, workload, "cuda", 0)
        self.bytes = operator.cost(first).bytes
        copies = max(2, -(-CACHE_BYTES // self.bytes))
        self.inputs = [first, *(drawn(operator, workload, "cuda", seed) for seed in range(1, copies))]
        named = {"value": workload.dtype, "index": workload.index_dtype}
        kinds = {a.name: getattr(torch, named.get(a.dtype, a.dtype)) for a in operator.arguments}
        self.outputs = [
            {name: torch.full(shape, torch.nan, dtype=kinds[name], device="cuda") for name, shape in shapes.items()}
            for shapes in map(operator.output_shapes, self.inputs)
        ]

    def time_us(self, built: bytes) -> tuple[float, str]:
        """Microseconds of a call, and what is wrong with its answer."""
        import torch

        from kevolve.devices import cuda_driver
        from kevolve.languages.triton import load

        program = load.Program(built, self.operator.name, cuda_driver.Driver(), cuda_driver, 1 << 30)
        calls = [program.bind(self._arguments(i, o)) for i, o in zip(self.inputs, self.outputs, strict=True)]
        for call in calls:
            call()
        torch.cuda.synchronize()
        wrong = self._wrong()
        times = []
        for _ in range(7):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(400_000)  # launches are queued meanwhile: the device never waits for them
            start.record()
            for call in calls:
                call()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e3 / len(calls))
        return median(times), wrong

    def _arguments(self, inputs: Any, outputs: Any) -> list[Any]:
        tensors = {**inputs.tensors, **outputs}
        return [
            int(inputs.scalars[a.name])
            if a.kind == "scalar"
            else [tensors[a.name].data_ptr(), list(tensors[a.name].shape), str(tensors[a.name].dtype)[6:]]
            for a in self.operator.arguments
        ]

    def _wrong(self) -> str:
        import torch

        inputs, outputs = self.inputs[-1], self.outputs[-1]
        some, answer = self.operator.sample(inputs, outputs, torch.Generator().manual_seed(5), 8)
        mismatch = self.operator.check(self.workload, answer, self.operator.oracle(some), some)
        for output in outputs.values():
            if bool(output.isnan().any()):
                return "WRONG: NaN in the outputs"
        return f"WRONG: {mismatch.reason} {mismatch.detail}" if mismatch else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*", default=[])
    parser.add_argument("--seeds", nargs="+", default=["plain", "tuned"])
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS))
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--edits", action="store_true")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    tried = [one for name in options.operators or operator_names() for one in candidates(name, options)]
    with ThreadPoolExecutor(options.processes) as pool:
        found = list(pool.map(archive, tried, [options.workloads] * len(tried)))
    if options.compile_only:
        for one, built in zip(tried, found, strict=True):
            print(f"{one.operator:28} {one.name:60} {built if isinstance(built, str) else resources(built)}")
        return
    report(tried, found, options.workloads)


def report(tried: Sequence[Candidate], found: Sequence[bytes | str], names: Sequence[str]) -> None:
    """Time what was built, one workload's inputs in memory at a time."""
    from kevolve.devices.cuda import Cuda

    copy_rate = Cuda().peaks().copy_bytes_per_s
    print(f"copy rate {copy_rate / 1e12:.3f} TB/s")
    for name in dict.fromkeys(one.operator for one in tried):
        operator = load_operator(name, "cuda")
        for workload in (w for w in operator.workloads if w.name in names):
            timer = Timer(operator, workload)
            print(f"\n{name} {workload.name}: bound {timer.bytes / copy_rate * 1e6:.1f} us")
            for one, built in zip(tried, found, strict=True):
                if one.operator != name:
                    continue
                if isinstance(built, str):
                    print(f"  {one.name:60} not built: {built[:200]}")
                    continue
                us, wrong = timer.time_us(built)
                rate = timer.bytes / us * 1e6
                share = rate / copy_rate
                print(f"  {one.name:60} {us:8.1f} us {rate / 1e9:6.0f} GB/s {share:5.0%}  {resources(built)}  {wrong}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
