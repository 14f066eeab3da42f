"""What judging costs and how far it can be trusted: the start of a child, and a baseline timed against itself.

    python tests/bench/judge.py [--trials 40] [--operator jagged_sum]

A baseline against itself must come out as 1.00 within its 95 % interval in 19 of 20 trials.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from statistics import median

import torch

from kevolve.config import JudgeConfig
from kevolve.devices.cpu import Cpu
from kevolve.judge.arena import Arena
from kevolve.judge.baselines import BaselineProcess
from kevolve.judge.call import Arenas, Call
from kevolve.judge.draws import Draws
from kevolve.judge.judge import Judge
from kevolve.judge.sandbox.process import ForkServer
from kevolve.judge.timing import Stopwatch
from kevolve.languages.cpp.build import Cpp
from kevolve.operators.operator import Operator, Workload

BASELINES = {"jagged_sum": "embedding_bag", "jagged_softmax": "bag"}


class Twin:
    """The same baseline in a second process, in the place of the program."""

    def __init__(self, operator: Operator, baseline: str, process: BaselineProcess):
        self.operator = operator
        self.baseline = baseline
        self.process = process

    def run(self, workload: Workload, calls: Sequence[Call], arenas: Arenas) -> tuple[float, list[int]]:
        return self.process.run(self.operator, self.baseline, calls, arenas)


class Unchecked(Stopwatch):
    """A baseline writes no outputs that could be checked; the survey has done so."""

    def _check_some(self, workload: Workload, placed: list[Call], share: float, rng: torch.Generator) -> None:
        return


def start_of_a_child(judge: Judge, count: int = 20) -> float:
    """Median seconds from asking the fork server to a confined child that answers, torch imported."""
    server = ForkServer(judge.tier, Cpp.load_path, judge.device.environment())
    outputs = Arena(1 << 20, read_only=False)
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        server.spawn(judge.inputs.fd, outputs.fd, (judge.inputs.size, outputs.size), 1 << 30, 60)
        seconds.append(time.perf_counter() - start)
        server.kill()
    server.close()
    return median(seconds)


def against_itself(judge: Judge, name: str, trials: int) -> tuple[int, list[float]]:
    """How often the interval held 1.00, and the ratios."""
    operator, baseline = judge.operator(name), BASELINES[name]
    processes = [
        BaselineProcess(judge.device.environment(), "cpu", judge.inputs.fd, judge.inputs.size) for _ in range(2)
    ]
    arenas = Arenas(judge.inputs, Arena(2 << 30, read_only=False))
    twin = Twin(operator, baseline, processes[0])
    watch = Unchecked(operator, twin, processes[1], arenas, Draws(operator, 0), judge.peaks, lambda: judge.peaks)  # type: ignore[arg-type]
    workloads = [w for w in operator.workloads if w.role == "search"]
    rng = torch.Generator().manual_seed(0)
    held, ratios = 0, []
    for trial in range(trials):
        measured = watch.measure(workloads[trial % len(workloads)], baseline, rng, judge.settings.max_pairs)
        low, high = measured.interval
        held += low <= 1.0 <= high
        print(f"  {measured.workload}: {measured.speedup:.3f} ({low:.3f} to {high:.3f})")
        ratios.append(measured.speedup)
    for process in processes:
        process.close()
    return held, ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--operator", choices=sorted(BASELINES), default="jagged_sum")
    arguments = parser.parse_args()
    judge = Judge(Cpu(), JudgeConfig())
    print(f"sandbox {judge.tier.describe()}, device {judge.device.key}, {judge.device.target.toolchain}")
    print(f"start of a sandboxed child: {start_of_a_child(judge) * 1e3:.1f} ms")
    held, ratios = against_itself(judge, arguments.operator, arguments.trials)
    print(f"{BASELINES[arguments.operator]} against itself: 1.00 within its interval in {held} of {len(ratios)} trials")
    print(f"  ratios: median {median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}")
    judge.close()


if __name__ == "__main__":
    main()
