"""How many programs a second the search itself can handle: real Ray islands and proposer tasks, the real store, and
a lease and a proposer that answer at once. Prints the rate, and the rate with 10,000 programs stored as a share of
that with 500.

    python tests/bench/orchestration.py [--programs 10000] [--lanes 8]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

STUBS = str(Path(__file__).parent.parent / "search")
sys.path.insert(0, STUBS)
os.environ["PYTHONPATH"] = STUBS  # Ray's workers unpickle the stub proposer

from search_stubs import StubLease, StubProposer, config  # noqa: E402

from kevolve.events import Event, read_events  # noqa: E402
from kevolve.search.evolution import evolve  # noqa: E402

WINDOW = 400  # programs over which a rate is taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--lanes", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wanted = config(
            Path(folder), evaluations=arguments.programs, lanes=arguments.lanes, minutes=60, migration_every=12
        )
        wanted.policy.islands = 4
        evolve(wanted, leases=[StubLease(exclusive=False)], proposer=StubProposer())
        times = [event.time for event in read_events(Path(folder) / "trial" / "events.jsonl") if _is_new(event)]
    early, late = _rate(times, 500), _rate(times, len(times))
    print(f"programs per second, {arguments.lanes} lanes, around 500 stored: {early:.0f}")
    print(f"programs per second around {len(times)} stored: {late:.0f} ({late / early:.0%} of that)")


def _is_new(event: Event) -> bool:
    return event.kind == "judged" and not event.data["reused"]


def _rate(times: list[float], until: int) -> float:
    """Programs per second over the window that ends with the program numbered `until`."""
    window = times[max(0, until - WINDOW) : until]
    return (len(window) - 1) / (window[-1] - window[0])


if __name__ == "__main__":
    main()
