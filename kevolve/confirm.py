"""`python -m kevolve.confirm`: are the champions still right and still faster, here and now? For your own CI.

Exit status: 0 all hold, 1 one is no longer right or no longer faster, 4 fault of the machine, 2 wrong command.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kevolve.champions.__main__ import KEPT
from kevolve.champions.champion import Champion, kept_champions, own_operator, run_champions
from kevolve.config import Config, JudgeConfig
from kevolve.errors import UsageError, nearest

if TYPE_CHECKING:
    from kevolve.champions.standing import Standing
    from kevolve.judge.judge import Judge

HOLD, FAILED, WRONG, FAULT, INTERRUPTED = 0, 1, 2, 4, 130


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="kevolve confirm",
        description="Judge champions again on this machine: on every workload, and against the fastest baseline. Those "
        "of other devices are passed over.",
        epilog="exit status: 0 all are right and faster, 1 one is not, 4 fault of the machine, 2 wrong command, "
        "130 interrupted",
    )
    made.add_argument("--operator", metavar="O", help="only this operator")
    made.add_argument("--device", default="auto", metavar="D", help="only this device (default: all that are here)")
    made.add_argument("--run", metavar="RUN", help="the champions of a run instead of those that are kept")
    made.add_argument("--registry", metavar="URI", help="those of an MLflow registry, such as sqlite:///mlflow.db")
    made.add_argument("--seed", type=int, default=0, metavar="S", help="decides the inputs (default 0)")
    made.add_argument("--json", action="store_true", help="print what was found as JSON")
    made.add_argument("--runs-dir", default=Config().runs_dir, metavar="DIR", help="where runs are (%(default)s)")
    made.add_argument("--champions-dir", default=KEPT, metavar="DIR", help="where champions are kept (%(default)s)")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Confirm and print; returns the exit status."""
    given = parser().parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="kevolve-confirm-") as scratch:
            return _confirm(given, Path(scratch))
    except UsageError as error:
        print(f"kevolve: {error}", file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        print("kevolve: interrupted.", file=sys.stderr)
        return INTERRUPTED


def _confirm(given: argparse.Namespace, scratch: Path) -> int:
    from kevolve.devices.registry import find_devices

    found = _of_operator(given, _found(given, scratch))
    devices = {device.key: device for device in find_devices(given.device)}
    here = [champion for champion in found if champion.device in devices]
    others = sorted({champion.device for champion in found} - set(devices))
    told = sys.stderr if given.json else sys.stdout
    for key in others:
        print(f"measured on {key}, this machine is {', '.join(devices)}: passed over.", file=told)
    if not here:
        raise UsageError(
            f"there is no champion of {', '.join(devices)} to confirm. Type the command on a machine with "
            f"{' or '.join(others) or 'one'}, or make one here: python -m kevolve.run"
        )
    for champion in here:
        champion.source()  # a file that is not right is said before anything is measured
    pairs = [(champion, own_operator(champion, Path(given.runs_dir))) for champion in here]

    from kevolve.champions.standing import confirm_all
    from kevolve.judge.choice import judge_of

    def new_judge(key: str) -> Judge:
        return judge_of(devices[key], JudgeConfig())

    standings: list[Standing] = []
    for standing in confirm_all(pairs, new_judge, given.seed, lambda line: print(line, flush=True, file=told)):
        standings.append(standing)
        print(f"  {standing.sentence}", flush=True, file=told)
    return _conclude(standings, as_json=given.json)


def _conclude(standings: Sequence[Standing], *, as_json: bool) -> int:
    """Print the sum of it; the exit status."""
    if as_json:
        print(json.dumps([standing.as_json() for standing in standings], indent=1))
    else:
        hold = sum(standing.finding == "holds" for standing in standings)
        print(f"{hold} of {len(standings)} hold.")
    findings = {standing.finding for standing in standings}
    return FAILED if findings & {"wrong", "slower"} else FAULT if "fault" in findings else HOLD


def _found(given: argparse.Namespace, scratch: Path) -> list[Champion]:
    """The champions that were asked for, of every operator and device. UsageError if there are none."""
    if given.registry is not None:
        from kevolve.champions.fetched import fetched_champions

        place, found = given.registry, list(fetched_champions(given.registry, scratch))
    elif given.run is not None:
        runs_dir = Path(given.runs_dir)
        runs = sorted(file.parent.name for file in runs_dir.glob("*/events.jsonl"))
        if given.run not in runs:
            listed = f"Runs there: {', '.join(runs)}." if runs else "There are none."
            raise UsageError(f"--run {given.run}: no such run in {runs_dir}.{nearest(given.run, runs)} {listed}")
        place, found = f"the run {given.run}", list(run_champions(runs_dir, given.run))
    else:
        place, found = given.champions_dir, list(kept_champions(Path(given.champions_dir)))
    if not found:
        raise UsageError(f"there are no champions in {place}. --run, --registry and --champions-dir look elsewhere.")
    return found


def _of_operator(given: argparse.Namespace, found: list[Champion]) -> list[Champion]:
    operators = sorted({champion.operator for champion in found})
    if given.operator is not None and given.operator not in operators:
        listed = f"{nearest(given.operator, operators)} There are champions of {', '.join(operators)}."
        raise UsageError(f"--operator {given.operator}: there is no champion of it.{listed}")
    return [champion for champion in found if given.operator in (None, champion.operator)]


if __name__ == "__main__":
    sys.exit(main())
