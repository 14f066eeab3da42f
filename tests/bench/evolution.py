"""How far the search gets from the plain programs: the main job, 60 evaluations an operator, three seeds.

    python tests/bench/evolution.py [--operators A B] [--seeds 0 1 2] [--evaluations 60] [--side-by-side N]

Prints, per operator and seed, the confirmed champion over the fastest correct baseline and over the plain program. Both
are ratios against the same baselines within one run, so the second is the quotient of two speedups. Each run has
two cores for itself: on a machine with more, N of them go side by side, each pinned to a pair of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from kevolve.events import read_events
from kevolve.operators.registry import operator_names
from kevolve.summary import summarise

CORES = 2


def start(folder: Path, operator: str, evaluations: int, seed: int, cores: Sequence[int]) -> subprocess.Popen[bytes]:
    """The run of one operator and seed, on `cores` and with temporary files of its own (the judge's lock is there)."""
    name = f"{operator}-seed{seed}"
    command = [
        sys.executable, "-m", "kevolve.run", "+experiment=jagged_ops", f"operators=[{operator}]",
        f"budget.evaluations={evaluations}", "budget.minutes=60", f"seed={seed}", f"name={name}",
        f"runs_dir={folder}", "tracking=none", f"cluster.cpus={len(cores)}",
    ]  # fmt: skip
    temporary = folder / f"tmp{cores[0]}"
    temporary.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env={**os.environ, "TMPDIR": str(temporary)},
            preexec_fn=partial(os.sched_setaffinity, 0, cores),
        )


def run_all(folder: Path, jobs: Sequence[tuple[str, int]], evaluations: int, side_by_side: int) -> None:
    """Every job, at most `side_by_side` at a time."""
    mine = sorted(os.sched_getaffinity(0))
    free = [mine[place * CORES : (place + 1) * CORES] for place in range(side_by_side)]
    if len(free[-1]) < CORES:
        sys.exit(f"--side-by-side {side_by_side} needs {side_by_side * CORES} cores; here are {len(mine)}.")
    waiting, running = list(jobs), {}
    while waiting or running:
        while waiting and free:
            operator, seed = waiting.pop(0)
            cores = free.pop()
            running[start(folder, operator, evaluations, seed, cores)] = cores
        time.sleep(0.5)
        for process in [process for process in running if process.poll() is not None]:
            free.append(running.pop(process))


def report(folder: Path, operator: str, seed: int) -> str:
    """One line on what a run came to."""
    file = folder / f"{operator}-seed{seed}" / "events.jsonl"
    if not file.exists():
        return f"{operator} seed {seed}: did not start, see {folder}"
    events = list(read_events(file))
    summary = summarise(file.parent.name, events)
    best = summary.results[0].best if summary.results else None
    if best is None:
        return f"{operator} seed {seed}: nothing scored"
    plain = next(
        event.data["judgement"]["verdict"]["fitness"]["speedup"]
        for event in events
        if event.kind == "judged" and event.data["number"] == 0
    )
    low, high = best.interval
    losses = [f"{w.name} {w.speedup:.2f}x" for w in summary.results[0].workloads if w.speedup < 1]
    return (
        f"{operator} seed {seed}: {best.speedup:.2f}x ({low:.2f} to {high:.2f}) over the fastest baseline, worst search"
        f" workload {best.worst_speedup:.2f}x, {best.speedup / plain:.1f}x over the plain program,"
        f" confirmed: {best.confirmed}, {summary.judged} judged in {summary.seconds:.0f} s;"
        f" slower on {', '.join(losses) or 'none'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--evaluations", type=int, default=60)
    parser.add_argument("--operators", nargs="+", default=operator_names())
    parser.add_argument("--side-by-side", type=int, default=1)
    parser.add_argument("--runs-dir", type=Path, help="keep the runs there (default: a temporary folder)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.runs_dir or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        jobs = [(operator, seed) for seed in arguments.seeds for operator in arguments.operators]
        run_all(folder, jobs, arguments.evaluations, arguments.side_by_side)
        for operator, seed in sorted(jobs):
            print(report(folder, operator, seed))


if __name__ == "__main__":
    main()
