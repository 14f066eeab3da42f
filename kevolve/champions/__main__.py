"""`python -m kevolve.champions`: the champions by operator and device, and whether a run has a better one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kevolve.champions.champion import Champion, kept_champions, run_champions
from kevolve.config import Config, JudgeConfig
from kevolve.errors import UsageError, nearest
from kevolve.verdict import Scored

if TYPE_CHECKING:
    from kevolve.devices.device import Device

KEPT = "populations/champions"
SCORED, REJECTED, WRONG, FAULT, INTERRUPTED = 0, 1, 2, 4, 130


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="kevolve champions",
        description="List the champions of each operator and device. With --from, measure a run's champion and the "
        "kept one again, here and now, and keep the better one; where their intervals overlap, the kept one stays.",
        epilog="exit status: 0 listed or compared, 1 the run's champion is rejected here, 4 fault of the machine, "
        "2 wrong command, 130 interrupted; nothing is changed in the last four",
    )
    made.add_argument("--operator", metavar="O", help="only this operator")
    made.add_argument("--from", dest="run", metavar="RUN", help="the run whose champion of O challenges the kept one")
    made.add_argument(
        "--device", default="auto", metavar="D", help="only this device key; where to measure (default: the first here)"
    )
    made.add_argument("--seed", type=int, default=0, metavar="S", help="decides the inputs (default 0)")
    made.add_argument("--runs-dir", default=Config().runs_dir, metavar="DIR", help="where runs are (%(default)s)")
    made.add_argument("--registry", metavar="URI", help="list those of MLflow's registry, too: sqlite:///mlflow.db")
    made.add_argument("--champions-dir", default=KEPT, metavar="DIR", help="where champions are kept (%(default)s)")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """List or compare; returns the exit status."""
    given = parser().parse_args(arguments)
    try:
        if given.run is None:
            return _list(given)
        if given.operator is None:
            raise UsageError("--from needs an operator. Type --operator O --from RUN.")
        return _compare(given)
    except UsageError as error:
        print(f"kevolve: {error}", file=sys.stderr)
        return WRONG
    except OSError as error:
        print(f"kevolve: {error.filename or given.champions_dir}: {error.strerror or error}.", file=sys.stderr)
        return FAULT
    except KeyboardInterrupt:
        print("kevolve: interrupted; the kept champion is as it was.", file=sys.stderr)
        return INTERRUPTED


def _list(given: argparse.Namespace) -> int:
    from kevolve.champions.listing import show, show_registered

    kept, runs = kept_champions(Path(given.champions_dir)), run_champions(Path(given.runs_dir))
    wanted = [champion for champion in (*kept, *runs) if given.operator in (None, champion.operator)]
    found = [champion for champion in wanted if given.device in ("auto", champion.device)]
    if given.registry:
        from kevolve.champions.registered import registered_champions

        in_registry = [
            champion
            for champion in registered_champions(given.registry)
            if given.operator in (None, champion.tag("operator")) and given.device in ("auto", champion.tag("device"))
        ]
        show_registered(in_registry, given.registry)
    if not found:
        about = f" of {given.operator}" if given.operator else ""
        print(f"There are no champions{about} in {given.champions_dir} or {given.runs_dir} yet.")
        print("  python -m kevolve.run makes some; --runs-dir and --champions-dir look elsewhere.")
        return SCORED
    show(found, {device.key for device in _devices("auto")})
    return SCORED


def _compare(given: argparse.Namespace) -> int:
    device = _device(given.device)
    challenger = _challenger(given, device)
    kept = [c for c in kept_champions(Path(given.champions_dir)) if c.operator == given.operator]
    holder = next((champion for champion in kept if champion.device == device.key), None)
    for other in kept:
        if other.device != device.key:
            print(f"{other.operator} measured on {other.device}, this machine is {device.key}: not comparable.")
    for champion in (challenger, holder):
        if champion is not None:
            champion.source()  # a file that is not right is said before anything heavy is imported
    if holder is not None and holder.program == challenger.program:
        print(f"{challenger.program[:8]} of {given.run} is the kept champion of {given.operator} on {device.key}.")
        return SCORED
    from kevolve.champions.contest import contest, store
    from kevolve.judge.choice import judge_of
    from kevolve.operators.custom.definition import kept as own_operator
    from kevolve.operators.custom.given import give

    definition = own_operator(Path(given.runs_dir) / given.run, given.operator)
    if definition is not None:  # the operator as the run knows it
        give([definition])
    judge = judge_of(device, JudgeConfig())
    try:
        outcome = contest(judge, challenger, holder, given.seed, lambda line: print(line, flush=True))
    finally:
        judge.close()
    place = store(outcome, Path(given.champions_dir), challenger, holder)
    print(f"{given.operator} on {device.key}: {outcome.reason}.")
    if place is not None and outcome.winner is not None:
        print(f"  {outcome.winner.program[:8]} of {outcome.winner.run} is champion: {place}")
    if outcome.has_fault:
        print("  Nothing was changed. See `kevolve doctor`, then type the command again.")
        return FAULT
    return SCORED if isinstance(outcome.challenger.verdict, Scored) else REJECTED


def _challenger(given: argparse.Namespace, device: Device) -> Champion:
    """The run's champion on this device key. UsageError says what the run has instead."""
    runs_dir = Path(given.runs_dir)
    runs = sorted(file.parent.name for file in runs_dir.glob("*/events.jsonl"))
    if given.run not in runs:
        listed = f"Runs there: {', '.join(runs)}." if runs else "There are none."
        raise UsageError(f"--from {given.run}: no such run in {runs_dir}.{nearest(given.run, runs)} {listed}")
    found = list(run_champions(runs_dir, given.run))
    of_operator = {champion.device: champion for champion in found if champion.operator == given.operator}
    if not of_operator:
        operators = sorted({champion.operator for champion in found})
        listed = f"It has {', '.join(operators)}." if operators else "It has none: a run crowns them when it ends."
        raise UsageError(f"--operator {given.operator}: {given.run} has no champion of it. {listed}")
    if device.key not in of_operator:
        raise UsageError(
            f"{given.operator} of {given.run} was measured on {', '.join(of_operator)}, this machine is {device.key}: "
            "not comparable.\n  Type the command on a machine with that device."
        )
    return of_operator[device.key]


def _device(name: str) -> Device:
    from kevolve.devices.registry import find_devices

    return find_devices(name)[0]


def _devices(name: str) -> list[Device]:
    from kevolve.devices.registry import find_devices

    try:
        return find_devices(name)
    except UsageError:
        return []  # listing needs no device


if __name__ == "__main__":
    sys.exit(main())
