"""`python -m kevolve.export RUN --operator O --device D --out DIR`: a champion as an installable package."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kevolve.champions.__main__ import KEPT
from kevolve.champions.champion import own_operator
from kevolve.config import Config
from kevolve.errors import UsageError
from kevolve.export.choosing import Wanted, choose, family
from kevolve.quiet import quieten

if TYPE_CHECKING:
    from kevolve.champions.champion import Champion
    from kevolve.operators.operator import Operator

DONE, WRONG, FAULT = 0, 2, 4


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="kevolve export",
        description="Write a champion down as a Python package that needs PyTorch and nothing of kevolve: the program, "
        "an operator of PyTorch with guards and a fallback, tests, a benchmark and where it comes from.",
        epilog="exit status: 0 written, 2 wrong command, 4 it could not be written",
    )
    made.add_argument("run", metavar="RUN", help="the run whose champion it is; `champion` for one that is kept")
    made.add_argument("--operator", metavar="O", help="which operator (default: the only one)")
    made.add_argument(
        "--device", metavar="D", help="on which device, such as cpu or nvidia-h200 (default: the only one)"
    )
    made.add_argument("--out", metavar="DIR", help="a new folder (default: one named after the package)")
    made.add_argument("--runs-dir", default=Config().runs_dir, metavar="DIR", help="where runs are (%(default)s)")
    made.add_argument("--champions-dir", default=KEPT, metavar="DIR", help="where champions are kept (%(default)s)")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Export and say what was written; returns the exit status."""
    given = parser().parse_args(arguments)
    try:
        return _export(given)
    except UsageError as error:
        print(f"kevolve: {error}", file=sys.stderr)
        return WRONG
    except OSError as error:
        print(f"kevolve: {error.filename or given.out}: {error.strerror or error}.", file=sys.stderr)
        print("  Type --out DIR with a folder that can be written; what is there now is not complete.", file=sys.stderr)
        return FAULT


def _export(given: argparse.Namespace) -> int:
    runs_dir, champions_dir = Path(given.runs_dir), Path(given.champions_dir)
    champion = choose(Wanted(given.run, given.operator, given.device, runs_dir, champions_dir))
    champion.source()  # a file that is not right is said before anything heavy is imported
    definition = own_operator(champion, runs_dir)
    device = family(champion)
    folder = Path(given.out or f"evolved-{champion.operator.replace('_', '-')}-{device}")
    _make(folder)
    quieten()  # baselines are tried, and what PyTorch thinks of one or another of them is of no interest here
    logging.getLogger("torch.fx").setLevel(logging.ERROR)
    if definition is not None:
        from kevolve.operators.custom.given import give

        give([definition])
    from kevolve.operators.registry import load_operator

    try:
        _write(champion, load_operator(champion.operator, device), folder, runs_dir)
    except UsageError:
        folder.rmdir()  # nothing was written
        raise
    return DONE


def _write(champion: Champion, operator: Operator, folder: Path, runs_dir: Path) -> None:
    """Export, and say what can be done with it."""
    from kevolve.export.describe import judged_version
    from kevolve.export.package import export

    exported = export(champion, operator, folder, runs_dir)
    print(f"{champion.operator} on {champion.device}, program {champion.program[:8]} of {champion.run}: {folder}")
    print(f"  pip install {folder}, then: from {exported.package} import {champion.operator}")
    print(f"  its tests: python -m pytest {folder}/tests; its benchmark: python -m {exported.package}.benchmark")
    best = exported.forms.forward[0] if exported.forms.forward else "the float64 oracle (no baseline is always right)"
    print(f"  where it was not proven, {best} answers")
    if exported.routes.losses:
        print(f"  slower than the fastest baseline: {', '.join(exported.routes.losses)}")
    if judged_version(champion) != operator.version:
        print("  Mind that the operator has changed since it was judged: python -m kevolve.confirm judges it again.")


def _make(folder: Path) -> None:
    """A new folder, before any work is done. UsageError if something is there already; OSError if it cannot be made."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"--out {folder}: it exists already and would be mixed up. Type another folder, or remove it.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".writable").touch()
    (folder / ".writable").unlink()


if __name__ == "__main__":
    sys.exit(main())
