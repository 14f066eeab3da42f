"""Records landscapes: the time of every point of a parameter grid of a real C++ program, for searches to be played on.

    python tests/landscapes/make.py OPERATOR [--minutes 10] [--points N]
    python tests/landscapes/make.py deceptive

The grid is what `tests/landscapes/OPERATOR.cpp` declares. Points are taken in a random order and compiled by
the dozen into one library, each a function of its own, with the flags of the cpp language. A point is checked against
the operator's float64 oracle on both workloads, and timed there against the program as it is declared: in each of
`ROUNDS` rounds all points of the library take turns in random order with it, on one thread, by that thread's own
clock, so that neither drift nor other work on the machine favours anybody. What is stored is the median time and the
median of the paired ratios. This is the judge's method made cheap, for programs that we trust: the same content in
every call, no sandbox.
The table is written after every library, so that a part of a grid is a table, too; the same command goes on with it.
`deceptive` is made up: see `deceptive.cpp`.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import random
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from kevolve.devices.registry import find_devices
from kevolve.intervals import interval_of_median
from kevolve.judge.landscape import METADATA
from kevolve.languages.cpp.build import FLAGS
from kevolve.languages.cpp.headers import HEADER
from kevolve.operators.operator import Inputs, Operator, Workload
from kevolve.operators.registry import load_operator
from kevolve.propose.parameters import Point, declared, points, with_values

HERE = Path(__file__).parent
WORKLOADS = ("small", "narrow")  # both float32 with int32 offsets: one binary
LIBRARY = 24  # points compiled together
ROUNDS = 9
LEAST_SECONDS = 0.0004  # of a timed window; shorter calls are repeated


@dataclass(frozen=True)
class Stage:
    """One workload with its content and the memory for the answer."""

    operator: Operator
    workload: Workload
    inputs: Inputs
    outputs: Mapping[str, torch.Tensor]

    @classmethod
    def of(cls, operator: Operator, workload: Workload) -> Stage:
        inputs = operator.make_inputs(workload, torch.Generator().manual_seed(0))
        shapes = operator.output_shapes(inputs)
        return cls(operator, workload, inputs, {name: torch.empty(shape) for name, shape in shapes.items()})

    def arguments(self) -> list[ctypes.c_int64]:
        tensors = {**self.inputs.tensors, **self.outputs}
        return [
            ctypes.c_int64(tensors[a.name].data_ptr() if a.kind != "scalar" else int(self.inputs.scalars[a.name]))
            for a in self.operator.arguments
        ]

    def wrong(self, function: Any) -> str | None:
        """What is wrong with the function's answer, if anything is."""
        for tensor in self.outputs.values():
            tensor.fill_(float("nan"))
        function(*self.arguments())
        expected = self.operator.oracle(self.inputs)
        mismatch = self.operator.check(self.workload, self.outputs, expected, self.inputs)
        return mismatch.reason if mismatch is not None else None


def library(operator: str, template: str, grid: Sequence[Point], folder: Path) -> list[Any]:
    """The declared program and then every point of `grid`, compiled into one library."""
    texts = []
    for number, point in enumerate([{}, *grid]):
        body = with_values(template, point).replace('#include "kevolve.h"', "")
        texts.append(
            f"namespace point{number} {{\n{body.replace(f'void {operator}(', f'void {operator}_{number}(')}\n}}"
        )
    source = folder / "points.cpp"
    source.write_text('#include "kevolve.h"\n' + "\n".join(texts))
    target = find_devices("cpu")[0].target
    macros = ["-DVALUE=float", "-DINDEX=int32_t"]
    command = ["g++", *FLAGS, *target.flags, *macros, f"-I{HEADER.parent}", str(source), "-o", f"{folder}/points.so"]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(f"{folder}/points.so")
    functions = [loaded[f"{operator}_{number}"] for number in range(len(grid) + 1)]
    for function in functions:
        function.restype = None
    return functions


def window(function: Any, arguments: Sequence[Any], repeats: int) -> float:
    """Seconds of a call, by the thread's own clock."""
    start = time.thread_time_ns()
    for _ in range(repeats):
        function(*arguments)
    return (time.thread_time_ns() - start) * 1e-9 / repeats


def timed(functions: Sequence[Any], stage: Stage, draw: random.Random) -> list[dict[str, Any]]:
    """Median time and median ratio of every function but the first, which is what the others are measured against."""
    arguments = stage.arguments()
    first = [min(window(function, arguments, 1) for _ in range(2)) for function in functions]
    repeats = [max(1, round(LEAST_SECONDS / seconds)) for seconds in first]
    windows: list[list[float]] = [[] for _ in functions]
    for _ in range(ROUNDS):
        turns = [*range(1, len(functions)), 0, 0]
        draw.shuffle(turns)
        found: dict[int, list[float]] = {}
        for number in turns:
            functions[number](*arguments)
            found.setdefault(number, []).append(window(functions[number], arguments, repeats[number]))
        for number, seconds in found.items():
            windows[number].append(sum(seconds) / len(seconds))
    rows = []
    for own in windows[1:]:
        ratios = [base / seconds for base, seconds in zip(windows[0], own, strict=True)]
        low, high = interval_of_median(ratios)
        rows.append({"us": median(own) * 1e6, "speedup": median(ratios), "low": low, "high": high})
    return rows


def measured(
    operator: str, template: str, grid: Sequence[Point], stages: Sequence[Stage], draw: random.Random
) -> list[dict[str, Any]]:
    """A row for every point."""
    with tempfile.TemporaryDirectory() as folder:
        functions = library(operator, template, grid, Path(folder))
        wrong = [next(filter(None, (stage.wrong(function) for stage in stages)), None) for function in functions[1:]]
        rows: list[dict[str, Any]] = [{**point, "rejected": reason} for point, reason in zip(grid, wrong, strict=True)]
        for stage in stages:
            for row, times in zip(rows, timed(functions, stage, draw), strict=True):
                row |= {f"{name}_{stage.workload.name}": round(value, 5) for name, value in times.items()}
    return rows


def best_again(
    operator: str, template: str, rows: list[dict[str, Any]], stages: Sequence[Stage], draw: random.Random
) -> list[dict[str, Any]]:
    """The best of the grid measured once more, together: else the best would be partly the luckiest."""
    right = [row for row in rows if row["rejected"] is None]
    best = sorted(right, key=lambda row: -math.prod(row[f"speedup_{name}"] for name in WORKLOADS))[:LIBRARY]
    grid = [{parameter.name: row[parameter.name] for parameter in declared(template)} for row in best]
    return [row for row in rows if row not in best] + measured(operator, template, grid, stages, draw)


def about_measured(operator: str, template: str, size: int) -> dict[str, Any]:
    """How a measured table was made."""
    device = find_devices("cpu")[0]
    return {
        "operator": operator, "language": "cpp", "template": template, "workloads": list(WORKLOADS),
        "baseline": "as declared", "grid": size, "rounds": ROUNDS, "threads": 1, "device": device.key,
        "toolchain": device.target.toolchain, "flags": " ".join((*FLAGS, *device.target.flags)),
        "measured": datetime.now(UTC).isoformat(timespec="seconds"), "made_by": "tests/landscapes/make.py",
    }  # fmt: skip


def write(file: Path, about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """The table with how it was made."""
    names = [parameter.name for parameter in declared(about["template"])]
    table = pa.Table.from_pylist(sorted(rows, key=lambda row: [row[name] for name in names]))
    columns = {f.name: pa.float32() if f.type == pa.float64() else f.type for f in table.schema}
    columns |= {**dict.fromkeys(names, pa.int32()), "rejected": pa.string()}
    table = table.cast(pa.schema(columns.items())).replace_schema_metadata({METADATA: json.dumps(about)})
    temporary = file.with_suffix(".part")
    pq.write_table(table, temporary, compression="zstd")
    temporary.replace(file)


def write_deceptive(template: str) -> None:
    """Two hills: a wide one that ends at 0 0 0 0, and a narrow one twice as high at the other end."""
    rows = []
    for point in points(template):
        to_low, to_high = sum(point.values()), sum(4 - value for value in point.values())
        speedup = max(2 * 0.92**to_low, 4 * 0.6**to_high)
        numbers = {"us": 100 / speedup, "speedup": speedup, "low": speedup, "high": speedup}
        rows.append({**point, "rejected": None, **{f"{name}_main": value for name, value in numbers.items()}})
    about = {"operator": "deceptive", "language": "cpp", "template": template, "workloads": ["main"]}
    write(HERE / "deceptive.parquet", {**about, "made_by": "a formula in tests/landscapes/make.py"}, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operator")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--points", type=int, help="no more than so many points in all")
    arguments = parser.parse_args()
    file, template = HERE / f"{arguments.operator}.parquet", (HERE / f"{arguments.operator}.cpp").read_text()
    if arguments.operator == "deceptive":
        write_deceptive(template)
        return
    torch.set_num_threads(1)
    rows = pq.read_table(file).to_pylist() if file.exists() else []
    names = [parameter.name for parameter in declared(template)]
    done = {tuple(row[name] for name in names) for row in rows}
    everything = list(points(template))
    random.Random(0).shuffle(everything)
    waiting = [point for point in everything[: arguments.points] if tuple(point.values()) not in done]
    operator = load_operator(arguments.operator)
    stages = [Stage.of(operator, workload) for workload in operator.workloads if workload.name in WORKLOADS]
    about = about_measured(arguments.operator, template, len(everything))
    deadline, draw = time.monotonic() + arguments.minutes * 60, random.Random(len(done))
    while waiting and time.monotonic() < deadline:
        batch, waiting = waiting[:LIBRARY], waiting[LIBRARY:]
        rows += measured(arguments.operator, template, batch, stages, draw)
        if not waiting:
            rows = best_again(arguments.operator, template, rows, stages, draw)
        write(file, about, rows)
        print(f"{arguments.operator}: {len(rows)} of {len(everything)} points", flush=True)


if __name__ == "__main__":
    main()
