"""`python -m kevolve.report RUN`: the report of a run as a page, in the terminal, as data, or beside another run's."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kevolve.config import Config
from kevolve.errors import UsageError

WRITTEN, WRONG, FAULT = 0, 2, 4


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="kevolve report",
        description="What a run found, by how much, how sure that is and how it came about. Writes one page that works "
        "offline, also for a run that still goes on or was killed.",
        epilog="exit status: 0 done, 2 wrong command or no such run, 4 the page cannot be written",
    )
    made.add_argument("run", metavar="RUN", nargs="?", help="the run's name, or its folder")
    shape = made.add_mutually_exclusive_group()
    shape.add_argument("--text", action="store_true", help="print the review instead")
    shape.add_argument("--json", action="store_true", help="print all the data instead")
    shape.add_argument("--csv", action="store_true", help="print a row for every program instead")
    shape.add_argument("--compare", nargs=2, metavar=("RUN1", "RUN2"), help="print two runs beside each other")
    made.add_argument("--out", metavar="FILE", help="where the page goes (default: report.html in the run's folder)")
    made.add_argument("--runs-dir", default=Config().runs_dir, metavar="DIR", help="where runs are (%(default)s)")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or print; returns the exit status."""
    commands = parser()
    given = commands.parse_args(arguments)
    if (given.run is None) == (given.compare is None):
        commands.error("name one run, or two after --compare: kevolve report RUN, kevolve report --compare RUN1 RUN2")
    try:
        if given.compare:
            _compare(given.compare, Path(given.runs_dir))
        else:
            _report(given)
    except UsageError as error:
        print(f"kevolve: {error}", file=sys.stderr)
        return WRONG
    except BrokenPipeError:  # `| head` has seen enough
        sys.stdout = None
    except OSError as error:
        print(f"kevolve: {error.filename or given.runs_dir}: {error.strerror or error}.", file=sys.stderr)
        print("  Nothing was changed. Type --out FILE to write the page elsewhere.", file=sys.stderr)
        return FAULT
    return WRITTEN


def _report(given: argparse.Namespace) -> None:
    from kevolve.report.findings.history import find_run, read_history
    from kevolve.report.findings.review import review_of

    history = read_history(find_run(given.run, Path(given.runs_dir)))
    review = review_of(history)
    if given.json or given.csv:
        from kevolve.report.tables import as_csv, as_json

        print(as_csv(history) if given.csv else as_json(history, review), end="")
    elif given.text:
        from kevolve.report.text import show
        from kevolve.screen import console

        show(review, console())
    else:
        from kevolve.report.write import write_page

        print(write_page(history, Path(given.out) if given.out else None, review))


def _compare(runs: Sequence[str], runs_dir: Path) -> None:
    from kevolve.report.compare import show
    from kevolve.report.findings.history import find_run, read_history
    from kevolve.report.findings.review import review_of
    from kevolve.screen import console

    first, second = (review_of(read_history(find_run(run, runs_dir))) for run in runs)
    show(first, second, console())


if __name__ == "__main__":
    sys.exit(main())
