"""What judging costs and how far it can be trusted.

    python tests/bench/judge.py [child itself slower windows ranking look] [--trials 100]

child     how long a confined child takes to start
itself    a program against itself at champion precision: how often its interval holds 1.00, and how wide it is
slower    the same program, slowed by 3 % on purpose: how often it is called slower
windows   how much of the judge's window is not the program's own time: waking it up
ranking   ten programs, each 5 % slower than the one before, judged beside a busy process: Kendall's tau
look      the device time of a first look at correct programs: at all search sizes, and at the smallest alone

Everything is a ratio within one run; a quiet machine is needed for all but `ranking`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import combinations
from statistics import median
from typing import ClassVar

from kevolve.config import JudgeConfig
from kevolve.devices.cpu import Cpu
from kevolve.judge.arena import Arena
from kevolve.judge.call import Arenas, Call
from kevolve.judge.correctness import Patience, Runner
from kevolve.judge.draws import Draws
from kevolve.judge.judge import Judge, Trying
from kevolve.judge.lease import Survey
from kevolve.judge.race import race
from kevolve.judge.sandbox.process import ForkServer
from kevolve.judge.streams import Streams
from kevolve.judge.timing import Stopwatch, Trial
from kevolve.languages.cpp.build import Cpp
from kevolve.languages.language import Built
from kevolve.operators.operator import Operator, Workload
from kevolve.paths import seeds_dir
from kevolve.program import Program
from kevolve.verdict import Fitness, Scored

OPERATOR = "jagged_sum"
# Every thread waits for `SHARE` of the time that it has worked.
SLOWED = """
#include "kevolve.h"
#include <x86intrin.h>
extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
    #pragma omp parallel
    {
        unsigned long long begin = __rdtsc();
        float *sums = new float[dim];
        #pragma omp for schedule(dynamic, 4) nowait
        for (int64_t b = 0; b < batch; b++) {
            for (int64_t d = 0; d < dim; d++) sums[d] = 0.0f;
            for (int64_t t = offsets[b]; t < offsets[b + 1]; t++)
                for (int64_t d = 0; d < dim; d++) sums[d] += (float)values[t * dim + d];
            for (int64_t d = 0; d < dim; d++) out[b * dim + d] = (VALUE)sums[d];
        }
        delete[] sums;
        unsigned long long worked = __rdtsc() - begin;
        while (__rdtsc() - begin < worked + (unsigned long long)(SHARE * (double)worked)) _mm_pause();
    }
}
"""
BUSY = "while True: pass"


def slowed(share: float) -> Program:
    """A sound program that takes `share` longer than it would."""
    return Program(OPERATOR, "cpp", SLOWED.replace("SHARE", f"{share:.6f}"))


class Rival:
    """A program in the place of the baseline, in a child of its own; the baseline's name is the workload's."""

    def __init__(self, judge: Judge, operator: Operator):
        self.server = ForkServer(judge.tier, Cpp.load_path, judge.device.environment(), ())
        self.workloads = {workload.name: workload for workload in operator.workloads}
        self.arenas = Arenas(judge.inputs, Arena(2 << 30, read_only=False))

    def start(self, judge: Judge, operator: Operator, built: Built) -> None:
        """In a new process, on outputs of its own."""
        self.arenas.outputs.close()
        self.arenas = Arenas(judge.inputs, Arena(2 << 30, read_only=False))
        self.runner = runner_of(judge, operator, built, self.server, self.arenas)

    def run(self, operator: Operator, baseline: str, calls: Sequence[Call], arenas: Arenas) -> tuple[float, list[int]]:
        self.arenas.outputs.next = arenas.outputs.next
        self.runner.reach()
        return self.runner.run(self.workloads[baseline], calls)

    def poison(self, calls: Sequence[Call]) -> None:
        """Its outputs, as the program finds its own."""
        poison(calls, self.arenas)

    def waited_seconds(self) -> float:
        return self.runner.child.waited_seconds()


class Both(Stopwatch):
    """A stopwatch whose baseline is a program, too. Of two pairs each side's outputs are written last in one."""

    baselines: Rival  # type: ignore[assignment]
    is_ours_last = False

    def fresh_each(self, contents: Sequence[Workload]) -> list[Call]:
        placed = super().fresh_each(contents)
        self.baselines.poison(placed)
        if self.is_ours_last:
            poison(placed, self.arenas)
        self.is_ours_last = not self.is_ours_last
        return placed


class Noting(Both):
    """Notes of each of the program's windows, by workload: its seconds, and those of them by the program's clock."""

    noted: ClassVar[defaultdict[str, list[tuple[float, float]]]] = defaultdict(list)

    def _program(self, trial: Trial, placed: list[Call]) -> bool:
        is_disturbed = super()._program(trial, placed)
        window, own = trial.program[-1] * len(placed), sum(trial.own_ns) * 1e-9
        self.noted[trial.workload.name].append((window, own))
        return is_disturbed


def poison(calls: Sequence[Call], arenas: Arenas) -> None:
    """Write all outputs of the calls."""
    for region in (region for call in calls for region in call.outputs.values()):
        arenas.outputs.bytes[region.offset : region.offset + region.tensor.nbytes].fill_(0xFF)


def runner_of(judge: Judge, operator: Operator, built: Built, server: ForkServer, arenas: Arenas) -> Runner:
    sizes = (arenas.inputs.size, arenas.outputs.size)
    child = server.spawn(arenas.inputs.fd, arenas.outputs.fd, sizes, 1 << 30, 36000)
    return Runner(operator, built, child, Patience(5.0, 36000.0), arenas)


def built_of(judge: Judge, program: Program) -> Built:
    built = judge.prepare(program)
    assert isinstance(built, Built), built
    return built


@contextmanager
def compared(judge: Judge, one: Program, other: Program, kind: type[Both] = Both) -> Iterator[Callable[[int], Fitness]]:
    """A function that measures `one` against `other` at champion precision, given a seed."""
    operator = judge.operator(one.operator)
    server = ForkServer(judge.tier, Cpp.load_path, judge.device.environment(), ())
    ours, theirs = built_of(judge, one), built_of(judge, other)
    rival = Rival(judge, operator)
    workloads = [workload for workload in operator.workloads if workload.role == "search"]

    def fitness(seed: int) -> Fitness:
        # In new processes, as every judgement: where memory lies makes some tenths of a percent.
        arenas = Arenas(judge.inputs, Arena(2 << 30, read_only=False))
        runner = runner_of(judge, operator, ours, server, arenas)
        rival.start(judge, operator, theirs)
        streams = Streams(judge.secret, seed)
        draws = Draws(operator, streams)
        peaks = judge.peaks
        watch = kind(operator, runner, rival, draws, peaks, lambda: peaks, judge.flush, streams, 0.0)  # type: ignore[arg-type]
        trials = [watch.begin(workload, workload.name) for workload in workloads]
        survey = Survey(operator.name, judge.device.key, {})
        race(watch, trials, trials, judge._rules(Trying(survey, draws, streams, True, 0.0, closely=False)))
        arenas.outputs.close()
        return Fitness.of(watch.measurement(trial) for trial in trials)

    yield fitness
    server.close()
    rival.server.close()


def child(judge: Judge, trials: int) -> None:
    """Median time from asking the fork server to a confined child that answers."""
    server = ForkServer(judge.tier, Cpp.load_path, judge.device.environment(), ())
    outputs = Arena(1 << 20, read_only=False)
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        server.spawn(judge.inputs.fd, outputs.fd, (judge.inputs.size, outputs.size), 1 << 30, 60)
        seconds.append(time.perf_counter() - start)
    server.close()
    print(f"start of a sandboxed child: {median(seconds) * 1e3:.1f} ms")


def itself(judge: Judge, trials: int) -> None:
    """Against itself."""
    _compare(
        judge, slowed(0.0), trials, "a program against itself: 1.00 is within its interval", lambda f: f[0] <= 1 <= f[1]
    )


def slower(judge: Judge, trials: int) -> None:
    """Against itself, slowed by 3 %."""
    _compare(judge, slowed(0.03), trials, "a program slowed by 3 % is called slower", lambda f: f[1] < 1)


def _compare(
    judge: Judge, program: Program, trials: int, what: str, is_right: Callable[[tuple[float, float]], bool]
) -> None:
    found, start = [], time.monotonic()
    with compared(judge, program, slowed(0.0)) as fitness:
        for seed in range(trials):
            found.append(fitness(seed))
            low, high = found[-1].interval
            print(f"  {found[-1].speedup:.4f} ({low:.4f} to {high:.4f})", flush=True)
    right = sum(is_right(fitness.interval) for fitness in found)
    widths = sorted((f.interval[1] - f.interval[0]) / 2 / f.speedup for f in found)
    seconds = (time.monotonic() - start) / trials
    print(
        f"{what} in {right} of {trials} trials; median ratio {median(f.speedup for f in found):.4f}, half-width median"
        f" {median(widths):.2%}, 95 % of them below {widths[int(0.95 * len(widths))]:.2%}; {seconds:.1f} s a trial"
    )


def windows(judge: Judge, trials: int) -> None:
    """Of an honest program, whose clock can be believed."""
    with compared(judge, slowed(0.0), slowed(0.0), Noting) as fitness:
        for seed in range(trials):
            fitness(seed)
    for name, noted in Noting.noted.items():
        window, own = median(window for window, _ in noted), median(own for _, own in noted)
        beside = median(window - own for window, own in noted)
        print(
            f"{name}: windows of {window * 1e6:.0f} us, {own * 1e6:.0f} us by the program's own clock,"
            f" {beside * 1e6:.0f} us beside it (medians of {len(noted)})"
        )


def ranking(judge: Judge, trials: int) -> None:
    """Ten programs 5 % apart, each judged by itself against the usual baseline, with a neighbour that never rests."""
    programs = [slowed(1.05**place - 1) for place in range(10)]
    survey = Survey(
        OPERATOR, judge.device.key, {w.name: {"embedding_bag": 1.0} for w in judge.operator(OPERATOR).workloads}
    )
    neighbour = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        speedups = []
        for program in programs:
            judgement = judge.measure(program, built_of(judge, program), survey, 1, confirm=True)
            assert isinstance(judgement.verdict, Scored), judgement.verdict
            fitness = judgement.verdict.fitness
            low, high = fitness.interval
            print(f"  {fitness.speedup:.3f} ({low:.3f} to {high:.3f}) {judgement.seconds:.1f} s")
            speedups.append(fitness.speedup)
    finally:
        neighbour.kill()
        neighbour.wait()
    pairs = list(combinations(speedups, 2))
    tau = sum(1 if first > second else -1 for first, second in pairs) / len(pairs)
    print(f"ranking of ten programs 5 % apart beside a busy process: Kendall's tau {tau:.2f}")


def look(judge: Judge, trials: int) -> None:
    """The plain program of every operator: judged while there is nothing to beat, and when it has surely lost."""
    for folder in sorted(seeds_dir().iterdir()):
        program = Program(folder.name, "cpp", (folder / "plain.cpp").read_text())
        built = built_of(judge, program)
        survey = judge.survey(folder.name, 0)
        assert isinstance(survey, Survey), survey
        judge.measure(program, built, survey, 1)  # draws, and what baselines compile
        first = judge.measure(program, built, survey, 2)
        lost = judge.measure(program, built, survey, 3, to_beat=100.0)
        every = judge.operators[folder.name]
        judge.operators[folder.name] = small = copy(every)
        small.workloads = tuple(w for w in every.workloads if w.role == "adversarial" or w.name == "small")
        alone = judge.measure(program, built, survey, 4)
        judge.operators[folder.name] = every
        print(
            f"{folder.name}: {first.seconds:.2f} s with nothing to beat, {lost.seconds:.2f} s when it has surely lost;"
            f" {alone.seconds:.2f} s where only the small size is timed"
        )


PARTS = {part.__name__: part for part in (child, itself, slower, windows, ranking, look)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--trials", type=int, default=100)
    arguments = parser.parse_args()
    judge = Judge(Cpu(), JudgeConfig(run_seconds=600, baselines="eager"))
    print(f"sandbox {judge.tier.describe()}, device {judge.device.key}, {judge.device.target.toolchain}")
    for part in arguments.parts or PARTS:
        PARTS[part](judge, arguments.trials)
    judge.close()


if __name__ == "__main__":
    main()
