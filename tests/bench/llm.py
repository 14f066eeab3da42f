"""What the llm proposer costs the search: the time to write a request late in a run, how busy the device is kept while
models take seconds to answer, and what is made of a small model's malformed replies. The models that are waited for
are a scripted server over HTTP, the judge sleeps for half a second.

    python tests/bench/llm.py [--programs 5000] [--lanes 64] [--latency 2.0] [--judged 80]
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "propose")]

if find_spec("litellm") is None:
    print("the extra `llm` is not installed, so nothing is measured")
    sys.exit()

from llm_runs import Fair, events_of, numbered, run, wanted  # noqa: E402
from scripted_server import serving  # noqa: E402

from kevolve.config import Config, ProposerConfig  # noqa: E402
from kevolve.judge.lease import Survey  # noqa: E402
from kevolve.operators.registry import load_operator  # noqa: E402
from kevolve.paths import seeds_dir  # noqa: E402
from kevolve.program import Program  # noqa: E402
from kevolve.propose.context.prompt import Prompts, task_of  # noqa: E402
from kevolve.propose.history import Past, history_of  # noqa: E402
from kevolve.propose.llm.retrieval import documents_of  # noqa: E402
from kevolve.propose.proposer import Context, Request  # noqa: E402
from kevolve.verdict import Fitness, Judgement, Key, Measurement, Rejected, Scored, Verdict  # noqa: E402
from tests.search.search_stubs import share  # noqa: E402

JUDGE_SECONDS = 0.5


class Slow(Fair):
    """Takes half a second for a program, and the whole device."""

    async def measure(self, *arguments: Any, **more: Any) -> Judgement:
        await asyncio.sleep(JUDGE_SECONDS)
        return await super().measure(*arguments, **more)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--lanes", type=int, default=64)
    parser.add_argument("--latency", type=float, default=2.0)
    parser.add_argument("--judged", type=int, default=80)
    parser.add_argument("--serve", action="store_true", help="be the scripted server, which is a process of its own")
    arguments = parser.parse_args()
    if arguments.serve:
        with serving(lambda request: replace(numbered(server.requests), delay=arguments.latency)) as server:
            print(server.base, flush=True)
            sys.stdin.read()  # until the bench is done with it
        return
    parsing()
    assembling(arguments.programs)
    busy(arguments.lanes, arguments.latency, arguments.judged)


def parsing() -> None:
    """What the parser makes of the replies that are kept (tests/propose/replies)."""
    from real_replies import tally

    found = tally()
    print(
        f"{found.replies} real malformed replies, {found.cut_off} of them cut off: a person could use {found.usable},"
        f" {found.recovered} are recovered, {found.mistaken} more are taken for programs"
    )


def assembling(count: int) -> None:
    """How long it takes to gather the history and write a request, with `count` programs in the lineage."""
    operator = load_operator("jagged_sum")
    source = (seeds_dir() / "jagged_sum" / "plain.cpp").read_text()
    programs: dict[str, Any] = {}
    judgements: dict[str, Judgement] = {}
    children: dict[str, list[str]] = {}
    for number in range(count):
        id = f"{number:016x}"
        above = [f"{int(share(id) * number):016x}"] if number else []
        programs[id] = {"id": id, "parents": above, "origin": {"idea": f"idea {number}", "kind": "improve"}}
        for parent in above:
            children.setdefault(parent, []).append(id)
        judgements[id] = Judgement(Key(id, "cpu", "g++", "1", "1"), _verdict(number))
    past = Past(programs, judgements, children)
    survey = Survey("jagged_sum", "cpu", {w.name: {"eager": 100.0, "compiled": 90.0} for w in operator.workloads})
    prompts, seconds = Prompts(ProposerConfig(), documents_of(Config())), []
    for number in range(count - 50, count):
        id = f"{number:016x}"
        parent = Program("jagged_sum", "cpp", f"{source}// {number}\n", (), {})
        request = Request("improve", (id,), number)
        started = time.perf_counter()
        history = history_of(past, (id,))
        parents = ((parent, judgements[id].verdict),)
        context = Context("jagged_sum", "cpu", parents, (parent,), number, ("cpp",), {}, survey, history)
        prompts.write(task_of(request, context, 0.1), request, context)
        seconds.append(time.perf_counter() - started)
    worst = sorted(seconds[1:])[-3]  # the first loads the operator; two for whatever else the machine has to do
    usual = 1e3 * median(seconds)
    print(f"a request with {count} programs in the lineage: {usual:.1f} ms, {1e3 * worst:.1f} ms at worst")


def _verdict(number: int) -> Verdict:
    if number % 3 == 0:
        return Rejected("correctness", "wrong on main (search): out is NaN where a number belongs", "out[0]: nan")
    speedup = 0.5 + share(str(number))
    measured = Measurement("main", "search", 1.0, "eager", 100.0, 100 / speedup, speedup, (speedup, speedup), 20.0)
    return Scored(Fitness.of([measured]), (measured,), {"diagnosis": "Memory bounds it."})


def busy(lanes: int, latency: float, judged: int) -> None:
    """The device's busy share from the first judged child to the last, and how old parents are by then."""
    command = [sys.executable, __file__, "--serve", "--latency", str(latency)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None
    assert server.stdout is not None
    base = server.stdout.readline().strip()
    with tempfile.TemporaryDirectory() as folder:
        patience = {"timeout_seconds": 60.0, "stall_seconds": 30.0}
        made = wanted(Path(folder), base, evaluations=judged, lanes=lanes, concurrency=lanes, **patience)
        run(made, Slow())
        events = events_of(made)
    server.stdin.close()
    server.wait()
    verdicts = [e for e in events if e.kind == "judged" and e.data["asked"] is not None and not e.data["reused"]]
    measured = [e for e in verdicts if e.data["judgement"]["seconds"]]
    span = measured[-1].elapsed - measured[0].elapsed
    share_busy = (len(measured) - 1) * JUDGE_SECONDS / span
    asked = {e.data["asked"]: e.seq for e in events if e.kind == "asked"}
    ages = [sum(asked[v.data["asked"]] < other.seq < v.seq for other in verdicts) for v in verdicts]
    print(f"{lanes} lanes, {latency:g} s a reply, {JUDGE_SECONDS:g} s a judgement: device busy {share_busy:.1%}")
    print(f"verdicts between a request and its own: {median(ages):.0f} in the median, {max(ages)} at most")


if __name__ == "__main__":
    main()
