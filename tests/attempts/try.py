"""Judges attempts for real: python tests/attempts/try.py FILE... [--seeds N] [--pairs N] [--confirm] [--trace]."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from kevolve.config import JudgeConfig
from kevolve.devices.cpu import Cpu
from kevolve.judge import timing
from kevolve.judge.call import Call
from kevolve.judge.judge import Judge
from kevolve.languages.language import Built
from kevolve.program import Program
from kevolve.verdict import Judgement, Scored
from tests.corpora import Bench


def told(judgement: Judgement) -> str:
    """A verdict in a line, and what was suspected."""
    verdict = judgement.verdict
    suspected = judgement.environment.get("suspicions", "")
    if isinstance(verdict, Scored):
        low, high = verdict.fitness.interval
        rows = ", ".join(f"{m.workload} {m.speedup:.2f}x" for m in verdict.measurements)
        return f"SCORED {verdict.fitness.speedup:.3f}x ({low:.3f} to {high:.3f}): {rows}; suspected: {suspected!r}"
    return f"{verdict}; suspected: {suspected!r}"


def trace_pairs() -> None:
    """Print every pair as it is checked."""
    plain = timing.Stopwatch._check_some

    def traced(self: timing.Stopwatch, trial: timing.Trial, placed: list[Call]) -> None:
        print(f"  {trial.workload.name} pair {len(trial.pairs)}, {trial.calls} calls, ratio {trial.pairs[-1]:.3f}")
        plain(self, trial, placed)

    timing.Stopwatch._check_some = traced  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--confirm", action="store_true")
    parser.add_argument("--trace", action="store_true")
    args = parser.parse_args()
    if args.trace:
        trace_pairs()
    settings = JudgeConfig(max_pairs=args.pairs, confirm_pairs=12, memory_gib=2.0)
    bench = Bench(Cpu())
    bench.judge.close()
    bench.judge = Judge(Cpu(), settings)
    for path in args.files:
        line = next(line for line in path.read_text().splitlines() if line.startswith("// operator: "))
        program = Program(line.removeprefix("// operator: "), "cpp", path.read_text())
        built = bench.judge.prepare(program)
        if not isinstance(built, Built):
            print(f"{path.stem}: {built}")
            continue
        for seed in range(args.seeds):
            start = time.monotonic()
            survey = bench.survey(program.operator)
            judgement = bench.judge.measure(program, built, survey, seed, confirm=args.confirm)
            print(f"{path.stem} seed {seed}: {told(judgement)}, {time.monotonic() - start:.1f} s", flush=True)
    bench.close()


if __name__ == "__main__":
    main()
