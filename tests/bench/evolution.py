"""How far the search gets from the plain programs: the main job, 60 evaluations an operator, three seeds.

    python tests/bench/evolution.py [--operators A B] [--policies islands mcts] [--seeds 0 1 2] [--evaluations 60]
                                    [--side-by-side N] [--at 20 60]

Prints, per operator, policy and seed, the confirmed champion over the fastest correct baseline and over the plain
program; then what the best program of a first look was after so many evaluations. All are ratios against the same
baselines within one run, so what is over the plain program is the quotient of two speedups. A run has two
cores for itself. On a machine with more, N operators go side by side, each pinned to a pair of its own.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kevolve.events import Event, read_events
from kevolve.operators.registry import operator_names
from kevolve.summary import Result, summarise

CORES = 2


@dataclass(frozen=True)
class Job:
    """One run."""

    operators: tuple[str, ...]
    policy: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.policy}-{self.seed}" + (f"-{self.operators[0]}" if len(self.operators) == 1 else "")


def start(folder: Path, job: Job, evaluations: int, cores: Sequence[int]) -> subprocess.Popen[bytes]:
    """The run of a job. If `cores` are not all, it has temporary files of its own: the judge's lock is there."""
    command = [
        sys.executable, "-m", "kevolve.run", "+experiment=jagged_ops", f"operators=[{','.join(job.operators)}]",
        f"budget.evaluations={evaluations}", "budget.minutes=120", f"seed={job.seed}", f"policy={job.policy}",
        f"name={job.name}", "knowledge.earlier=0", f"runs_dir={folder}", "tracking=none", f"cluster.cpus={len(cores)}",
    ]  # fmt: skip
    environment = dict(os.environ)
    if len(cores) < len(os.sched_getaffinity(0)):
        environment["TMPDIR"] = str(folder / f"tmp{cores[0]}")
        Path(environment["TMPDIR"]).mkdir(parents=True, exist_ok=True)
    with (folder / f"{job.name}.log").open("wb") as log:
        return subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env=environment,
            preexec_fn=partial(os.sched_setaffinity, 0, cores),
        )


def run_all(folder: Path, jobs: Sequence[Job], evaluations: int, side_by_side: int) -> None:
    """Every job, at most `side_by_side` at a time."""
    mine = sorted(os.sched_getaffinity(0))
    free = [mine[place * CORES : (place + 1) * CORES] for place in range(side_by_side)]
    if len(free[-1]) < CORES:
        sys.exit(f"--side-by-side {side_by_side} needs {side_by_side * CORES} cores; here are {len(mine)}.")
    waiting, running = list(jobs), {}
    while waiting or running:
        while waiting and free:
            cores = free.pop()
            running[start(folder, waiting.pop(0), evaluations, cores)] = cores
        time.sleep(0.5)
        for process in [process for process in running if process.poll() is not None]:
            free.append(running.pop(process))


def report(folder: Path, job: Job, marks: Sequence[int]) -> list[str]:
    """A line for each operator of a run, and one for what it was worth after each number of evaluations in `marks`."""
    file = folder / job.name / "events.jsonl"
    if not file.exists():
        return [f"{job.name}: did not start, see {folder / job.name}.log"]
    events = list(read_events(file))
    plain = {
        event.data["operator"]: event.data["judgement"]["verdict"]["fitness"]["speedup"]
        for event in events
        if event.kind == "judged" and event.data["number"] == 0
    }
    summary = summarise(job.name, events)
    lines = []
    for result in summary.results:
        found = [f"{best_after(events, result.operator, mark):.2f}x after {mark}" for mark in marks]
        lines += [described(result, plain[result.operator], job), f"  first looks: {', '.join(found)}"]
    return [*lines, f"{job.name}: {summary.judged} programs judged in {summary.seconds:.0f} s, {summary.rejected}"]


def best_after(events: Sequence[Event], operator: str, mark: int) -> float:
    """The best speedup of a first look among the first `mark` programs of an operator, and the starting one."""
    judged = [event.data for event in events if event.kind == "judged" and event.data["operator"] == operator]
    verdicts = [data["judgement"]["verdict"] for data in judged if data["number"] <= mark]
    return max(verdict["fitness"]["speedup"] for verdict in verdicts if verdict["verdict"] == "Scored")


def described(result: Result, plain: float, job: Job) -> str:
    """What the search of one operator came to; `plain` is the speedup of the program it started from."""
    best = result.best
    if best is None:
        return f"{job.name} {result.operator}: nothing scored"
    low, high = best.interval
    losses = [f"{workload.name} {workload.speedup:.2f}x" for workload in result.workloads if workload.speedup < 1]
    return (
        f"{job.name} {result.operator}: {best.speedup:.2f}x ({low:.2f} to {high:.2f}) over the fastest baseline, worst"
        f" search workload {best.worst_speedup:.2f}x, {best.speedup / plain:.1f}x over the plain program,"
        f" confirmed: {best.confirmed}; slower on {', '.join(losses) or 'none'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", nargs="+", default=["islands"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--evaluations", type=int, default=60)
    parser.add_argument("--operators", nargs="+", default=operator_names())
    parser.add_argument("--at", type=int, nargs="+", default=[20, 60], help="numbers of evaluations")
    parser.add_argument("--side-by-side", type=int, default=1)
    parser.add_argument("--runs-dir", type=Path, help="keep the runs there (default: a temporary folder)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.runs_dir or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        together = [tuple(arguments.operators)] if arguments.side_by_side == 1 else [(o,) for o in arguments.operators]
        choices = itertools.product(arguments.seeds, arguments.policies, together)
        jobs = [Job(operators, policy, seed) for seed, policy, operators in choices]
        run_all(folder, jobs, arguments.evaluations, arguments.side_by_side)
        for job in jobs:
            print("\n".join(report(folder, job, arguments.at)))


if __name__ == "__main__":
    main()
