"""How many programs a run judged in a minute, and how much of the time its device was at work.

`python tests/bench/throughput.py populations/runs/NAME`: counts from the run's events, between the first verdict on a
child and the last; starting programs, baselines and confirmations are left out.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path


def main(folder: str) -> None:
    lines = Path(folder, "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    judged = [event for event in events if event["kind"] == "judged" and not event["data"]["reused"]]
    children = [event for event in judged if event["data"]["island"] is not None]
    minutes = (children[-1]["elapsed"] - children[0]["elapsed"]) / 60
    judgements = [event["data"]["judgement"] for event in children]
    kinds = Counter(judgement["verdict"]["verdict"] for judgement in judgements)
    busy = sum(judgement["seconds"] for judgement in judgements) / 60
    print(f"{len(children)} children in {minutes:.2f} minutes: {dict(kinds)}")
    print(f"{kinds['Scored'] / minutes:.1f} correct programs a minute, {len(children) / minutes:.1f} in all")
    print(f"the device was at work {busy / minutes:.0%} of the time")


if __name__ == "__main__":
    main(sys.argv[1])
