"""How far the search gets from the plain programs: the main job, 60 evaluations an operator, three seeds.

    python tests/bench/evolution.py [--seeds 0 1 2] [--evaluations 60] [--runs-dir DIR]

Prints, per operator and seed, the confirmed champion over the fastest correct baseline and over the plain program. Both
are ratios against the same baselines within one run, so the second is the quotient of two speedups.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from kevolve.events import read_events
from kevolve.summary import summarise


def run(folder: Path, operators: list[str], evaluations: int, seed: int) -> Path:
    name = f"seed{seed}"
    command = [
        sys.executable, "-m", "kevolve.run", "+experiment=jagged_ops", f"operators=[{','.join(operators)}]",
        f"budget.evaluations={evaluations}", "budget.minutes=60", f"seed={seed}", f"name={name}",
        f"runs_dir={folder}", "tracking=none",
    ]  # fmt: skip
    subprocess.run(command, check=True, stdout=sys.stderr)
    return folder / name / "events.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--evaluations", type=int, default=60)
    parser.add_argument("--operators", nargs="+", default=["jagged_sum", "jagged_softmax"])
    parser.add_argument("--runs-dir", type=Path, help="keep the runs there (default: a temporary folder)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.runs_dir or Path(temporary)
        for seed in arguments.seeds:
            events = list(read_events(run(folder, arguments.operators, arguments.evaluations, seed)))
            summary = summarise(f"seed{seed}", events)
            plain = {
                event.data["operator"]: event.data["judgement"]["verdict"]["fitness"]["speedup"]
                for event in events
                if event.kind == "judged" and event.data["number"] == 0
            }
            for result in summary.results:
                best = result.best
                if best is None:
                    print(f"seed {seed} {result.operator}: nothing scored")
                    continue
                low, high = best.interval
                print(
                    f"seed {seed} {result.operator}: {best.speedup:.2f}x ({low:.2f} to {high:.2f}) over the fastest"
                    f" baseline, worst workload {best.worst_speedup:.2f}x,"
                    f" {best.speedup / plain[result.operator]:.1f}x over the plain program,"
                    f" confirmed: {best.confirmed}, run {summary.seconds:.0f} s"
                )


if __name__ == "__main__":
    main()
