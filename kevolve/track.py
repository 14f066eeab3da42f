"""`python -m kevolve.track RUN`: send a run to MLflow, as far as it is not there.

For a run whose server was dead, or that was driven with tracking=none. The whole of it is told once more; MLflow keeps
each point once, and what is there already is found by the run's name.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from kevolve.config import Config
from kevolve.errors import UsageError

SENT, WRONG, FAULT = 0, 2, 4


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="kevolve track",
        description="Send a run to MLflow, as far as it is not there yet. May be typed as often as one likes.",
        epilog="exit status: 0 all of it is there, 2 wrong command or no such run, 4 MLflow cannot be written",
    )
    made.add_argument("run", metavar="RUN", help="the run's name, or its folder")
    made.add_argument("--uri", metavar="URI", help="MLflow's store (default: the one that the run was configured with)")
    made.add_argument("--runs-dir", default=Config().runs_dir, metavar="DIR", help="where runs are (%(default)s)")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Send the run; returns the exit status."""
    from kevolve.quiet import quieten

    given = parser().parse_args(arguments)
    quieten()
    try:
        return _send(given)
    except UsageError as error:
        print(f"kevolve: {error}", file=sys.stderr)
        return WRONG
    except OSError as error:
        print(f"kevolve: {error.filename or given.runs_dir}: {error.strerror or error}.", file=sys.stderr)
        return FAULT


def config_of(record: Mapping[str, Any], schema: type = Config) -> Any:
    """The configuration out of an event; what another version had and this one has not is left out."""
    hints, values = get_type_hints(schema), {}
    for entry in fields(schema):
        if entry.name in record:
            hint, value = hints[entry.name], record[entry.name]
            is_section = isinstance(hint, type) and is_dataclass(hint)
            values[entry.name] = config_of(value, hint) if is_section else value
    return schema(**values)


def _send(given: argparse.Namespace) -> int:
    from kevolve.events import read_events
    from kevolve.report.findings.history import find_run, history_of
    from kevolve.report.write import write_page
    from kevolve.tracking import Tracking
    from kevolve.tracking.address import redact

    folder = find_run(given.run, Path(given.runs_dir))
    events = list(read_events(folder / "events.jsonl"))
    history = history_of(folder, events)
    config: Config = config_of(history.config)
    uri = given.uri or config.tracking.uri
    tracking = replace(config.tracking, uri=uri, enabled=True)
    config = replace(config, name=history.name, runs_dir=str(folder.resolve().parent), resume=True, tracking=tracking)
    write_page(history)  # it is sent with the rest
    warnings: list[str] = []
    listener = Tracking(config, warnings.append)
    listener.recalled(events)
    listener.closed(history.summary)
    if listener.has_failed:
        raise OSError(warnings[0].partition(": ")[2].partition(" The run goes on")[0].rstrip("."))
    print(f"{history.name} is in {redact(uri)}, all of it, after {listener.seconds:.1f} s.")
    return SENT


if __name__ == "__main__":
    sys.exit(main())
