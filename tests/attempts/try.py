"""Judges attempts for real: python attempts/try.py FILE... [--seeds N] [--confirm] [--pairs 9] [--base FILE]."""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from kevolve.config import JudgeConfig
from kevolve.devices.cpu import Cpu
from kevolve.judge.judge import Judge
from kevolve.languages.language import Built
from kevolve.verdict import Scored
from tests.corpora import Bench, Case

parser = argparse.ArgumentParser()
parser.add_argument("files", nargs="+", type=Path)
parser.add_argument("--seeds", type=int, default=1)
parser.add_argument("--first", type=int, default=0)
parser.add_argument("--pairs", type=int, default=9)
parser.add_argument("--confirm", action="store_true")
parser.add_argument("--sandbox", default="auto")
parser.add_argument("--trace", action="store_true")
parser.add_argument("--dump", action="store_true")
parser.add_argument("--quiet", action="store_true")
args = parser.parse_args()

if args.trace:
    from kevolve.judge import timing

    plain = timing.Stopwatch._check_some

    def traced(self, trial, placed):
        before = trial.checked
        if args.dump:
            for call in placed:
                print("      ", [float(x) for x in call.answer()["out"].reshape(-1)[:72]])
        try:
            plain(self, trial, placed)
        finally:
            print(
                f"      {trial.workload.name} pair {len(trial.pairs)} calls {trial.calls} ratio {trial.pairs[-1]:.3f} checked {before:.3f} -> {trial.checked:.3f} p {trial.program[-1] * 1e6:.0f}"
            )

    timing.Stopwatch._check_some = traced
bench = Bench.__new__(Bench)
bench.judge = Judge(
    Cpu(), JudgeConfig(sandbox=args.sandbox, run_seconds=30.0, max_pairs=args.pairs, confirm_pairs=12, memory_gib=2.0)
)
bench.built = {}


def read(path):
    says = {}
    case = Case.__new__(Case)
    for line in path.read_text().splitlines():
        if line.startswith("// operator:"):
            says["operator"] = line.split(":")[1].strip()
    object.__setattr__(case, "path", path)
    object.__setattr__(case, "says", says)
    text = path.read_text()
    import re

    seen = set()

    def part(match):
        if match[1] in seen:
            return ""
        seen.add(match[1])
        root = Path(__file__).parents[1] / "tests/exploits/cpp"
        return re.sub(r'^#include "(parts/[^"]+)"\n', part, (root / match[1]).read_text(), flags=re.M)

    from kevolve.program import Program

    return Program(says["operator"], "cpp", re.sub(r'^#include "(parts/[^"]+)"\n', part, text, flags=re.M))


for path in args.files:
    program = read(path)
    built = bench.judge.prepare(program)
    if not isinstance(built, Built):
        print(path.name, built)
        continue
    for seed in range(args.first, args.first + args.seeds):
        start = time.time()
        judgement = bench.judge.measure(program, built, bench.survey(program.operator), seed, confirm=args.confirm)
        verdict = judgement.verdict
        took = time.time() - start
        if isinstance(verdict, Scored):
            low, high = verdict.fitness.interval
            print(
                f"{path.stem} seed {seed}: SCORED {verdict.fitness.speedup:.3f} [{low:.3f}, {high:.3f}] in {took:.1f} s"
                f" suspicions={judgement.environment.get('suspicions', '')!r}"
            )
            if not args.quiet:
                print(
                    "   ",
                    {
                        m.workload: (round(m.us), round(m.speedup, 3), len(m.pairs) if hasattr(m, "pairs") else "")
                        for m in verdict.measurements
                    },
                )
        else:
            print(
                f"{path.stem} seed {seed}: {type(verdict).__name__} {getattr(verdict, 'stage', '')} {verdict.reason} {getattr(verdict, 'detail', '')} in {took:.1f} s suspicions={judgement.environment.get('suspicions', '')!r}"
            )
        sys.stdout.flush()
bench.judge.close()
