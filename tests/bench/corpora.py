"""How often is the judge wrong about the corpora? Every program with many seeds in every sandbox tier that works here.

    python tests/bench/corpora.py [--repeats 20] [--tiers bwrap landlock process] [--only 'cpp/T*'] [--seed 0]

A false accept is an exploit that was scored, a false reject an honest program that was rejected. Prints both as a
Markdown table, and every verdict that is not the one in the program's header. Ends with 1 if there was a false one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch

from kevolve.devices.cpu import Cpu
from kevolve.errors import UsageError
from kevolve.judge.sandbox.tiers import TIERS
from kevolve.languages.language import Built
from kevolve.verdict import Fault, Rejected, Scored, Verdict
from tests.corpora import EXPLOITS, HONEST, Bench, Case, cases


@dataclass
class Count:
    """What a tier made of the corpora."""

    exploits: int = 0
    accepted: int = 0
    honest: int = 0
    rejected: int = 0
    faults: int = 0
    told_otherwise: int = 0  # rejected as it should be, but for another reason than the header's
    failures: list[str] = field(default_factory=list)

    def add(self, case: Case, seed: int, verdict: Verdict) -> None:
        is_exploit = bool(case.stages)
        self.exploits += is_exploit
        self.honest += not is_exploit
        self.faults += isinstance(verdict, Fault)
        self.accepted += is_exploit and isinstance(verdict, Scored)
        self.rejected += not is_exploit and isinstance(verdict, Rejected)
        if told := case.differs(verdict):
            self.told_otherwise += is_exploit and isinstance(verdict, Rejected)
            known = f" (known hole: {case.says['open']})" if "open" in case.says else ""
            self.failures.append(f"{case.name}, seed {seed}: {told}{known}")

    def row(self, tier: str) -> str:
        shown = (tier, self.exploits, self.accepted, self.told_otherwise, self.honest, self.rejected, self.faults)
        return f"| {' | '.join(map(str, shown))} |"


HEAD = (
    "| tier | exploits judged | false accepts | other reason | honest judged | false rejects | faults |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)


def judged(tier: str, wanted: Sequence[Case], repeats: int, first_seed: int) -> Count:
    """All programs in one tier; what never gets past the build is judged once, since no seed plays a part in it."""
    bench, count = Bench(Cpu(), sandbox=tier), Count()
    wanted = [case for case in wanted if case.promised(tier)]
    bench.build(wanted)
    for repeat in range(repeats):
        start = time.monotonic()
        for case in wanted:
            if repeat == 0 or isinstance(bench.built[case.path], Built):
                count.add(case, first_seed + repeat, bench.verdict(case, first_seed + repeat))
        print(f"  {tier}: {repeat + 1} of {repeats}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    bench.close()
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--tiers", nargs="+", choices=TIERS, default=list(TIERS))
    parser.add_argument("--only", default="*", help="names such as cpp/T2_process, wildcards allowed")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    arguments = parser.parse_args()
    everything = [case for corpus in (EXPLOITS, HONEST) for case in cases(corpus, Cpu.languages)]
    wanted = [case for case in everything if fnmatch(case.name, arguments.only)]
    counts: dict[str, Count] = {}
    for tier in arguments.tiers:
        try:
            counts[tier] = judged(tier, wanted, arguments.repeats, arguments.seed)
        except UsageError as error:
            print(f"{tier} left out: {error}", file=sys.stderr)
    print("\n".join([HEAD, *(count.row(tier) for tier, count in counts.items())]))
    for tier, count in counts.items():
        print("\n".join(f"- {tier}: {failure}" for failure in count.failures))
    return int(any(count.accepted or count.rejected for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
