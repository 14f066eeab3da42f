"""The main job: `python -m kevolve.run +experiment=NAME [group=option ...] [key=value ...]`.

Says what it is going to do before anything heavy is imported, evolves, and ends with a table. `--help` tells the
rest, exit statuses included.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

import kevolve
from kevolve.cache import why_not_writable
from kevolve.config import Config
from kevolve.configuration import load_config
from kevolve.configuration.help import help_text
from kevolve.configuration.schema import as_yaml
from kevolve.configuration.tree import folders
from kevolve.devices.registry import refuse_elsewhere
from kevolve.errors import FaultsStopped, UsageError, nearest
from kevolve.operators.custom.bring import notice
from kevolve.quiet import RunLog, quieten
from kevolve.report import Reporter
from kevolve.results import is_better, show_results
from kevolve.screen import console, screen
from kevolve.search.cluster import address_of, in_a_job
from kevolve.tracking import Tracking
from kevolve.tracking.address import redact
from kevolve.trouble import disk_trouble, resume_command

if TYPE_CHECKING:
    from kevolve.summary import Summary

FINISHED, WRONG, NOTHING_BETTER, FAULTS, INTERRUPTED = 0, 2, 3, 4, 130
FLAGS = ("--help", "-h", "--cfg", "--config-dir")


@dataclass
class Command:
    """The command line, flags apart from what Hydra composes."""

    overrides: list[str] = field(default_factory=list)
    wants_help: bool = False
    wants_config: bool = False
    config_dir: str | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status. A mistake of the user's is one message, never a traceback."""
    began = time.monotonic()  # the budget's minutes count from here
    try:
        command = read_command(sys.argv[1:] if arguments is None else arguments)
        if command.wants_help:
            print(help_text(folders(command.config_dir)))
            return FINISHED
        config = load_config(command.overrides, command.config_dir)
        if command.wants_config:
            print(as_yaml(config), end="")
            return FINISHED
        return run(named(config), began)
    except UsageError as error:
        print(f"kevolve: {error}", file=sys.stderr)
        return WRONG
    except FaultsStopped as error:
        print(f"kevolve: {error}", file=sys.stderr)
        return FAULTS
    except BrokenPipeError:  # `| head` has seen enough
        sys.stdout = None  # or Python complains when it flushes at exit
        return FINISHED
    except OSError as error:  # before there is a run: a file of the configuration that cannot be read
        print(f"kevolve: {error.filename or 'the configuration'}: {error.strerror or error}.", file=sys.stderr)
        return FAULTS
    except KeyboardInterrupt:
        print("kevolve: interrupted; what was judged is saved.", file=sys.stderr)
        return INTERRUPTED


def run(config: Config, began: float) -> int:
    """Evolve and show the result. `began`, by `time.monotonic`, is when the command was typed."""
    shown = console()
    if address_of(config.cluster) is None:
        refuse_elsewhere(config.device.name)
    announce(config, shown)
    quieten()
    from kevolve.knowledge.lessons import Lessons
    from kevolve.search.evolution import evolve

    view = screen(config, shown)
    tracking = [Tracking(config, view.note)] if config.tracking.enabled else []
    learned = config.knowledge.learned
    lessons = [Lessons(Path(learned), str(config.name), view.note)] if learned is not None else []
    try:
        listeners = [RunLog(config), view, *lessons, Reporter(config, view.note), *tracking]
        summary = evolve(config, listeners, began=began)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FaultsStopped(disk_trouble(error, config)) from error
    finally:
        view.stop()
    show_results(summary, view.progress, config, shown)
    return status(summary, config)


def status(summary: Summary, config: Config) -> int:
    """The exit status that a summary stands for."""
    if summary.stopped == "interrupted":
        return INTERRUPTED
    if summary.stopped == "faults":
        return FAULTS
    if config.require == "better":
        better = {result.operator for result in summary.results if is_better(result)}
        if better != set(config.operators) or not all(is_better(result) for result in summary.results):
            return NOTHING_BETTER
    return FINISHED


def read_command(arguments: Sequence[str]) -> Command:
    """Split flags from overrides; UsageError for a flag that does not exist."""
    command, rest = Command(), list(arguments)
    while rest:
        argument = rest.pop(0)
        flag, has_value, value = argument.partition("=")
        if argument in ("--help", "-h"):
            command.wants_help = True
        elif argument == "--cfg":
            command.wants_config = True
        elif flag == "--config-dir":
            if not has_value and not rest:
                raise UsageError("--config-dir needs a folder. Type --config-dir DIR.")
            command.config_dir = value if has_value else rest.pop(0)
        elif argument.startswith("-"):
            close = nearest(flag, FLAGS)
            raise UsageError(f"{argument}: there is no such flag.{close} Flags: --help, --cfg, --config-dir DIR.")
        else:
            command.overrides.append(argument)
    return command


def named(config: Config) -> Config:
    """The configuration with a name for the run: what it is, and when it began."""
    if config.name is not None:
        return config
    return replace(config, name=f"{config.experiment or 'run'}-{datetime.now():%Y%m%d-%H%M%S}")


def announce(config: Config, console: Console) -> None:
    """What is about to happen, before the seconds that imports take."""
    budget, minutes = config.budget, f"{config.budget.minutes:g}"
    verb = "goes on with" if config.resume else "starts"
    own = f" (from {config.operator_file}, screened first)" if config.operator_file and not config.resume else ""
    cluster = address_of(config.cluster)
    everywhere = f"auto (every device of {'the cluster' if cluster else 'this machine'})"
    device = everywhere if config.device.name == "auto" else config.device.name
    if config.judge.landscape:
        device = f"none: recorded timings from {config.judge.landscape}"
    lines = [
        f"kevolve {kevolve.__version__} {verb} {config.name} in {Path(config.runs_dir) / str(config.name)}",
        f"  operators  {', '.join(config.operators)}{own}",
        f"  device     {device}",
        f"  proposer   {proposer_line(config)}",
        f"  budget     {budget.evaluations} programs per operator and device, {minutes} minutes, seed {config.seed}",
        f"  tracking   {redact(config.tracking.uri) if config.tracking.enabled else 'none'}",
        f"  Ctrl-C stops and saves; go on with: {resume_command(config)}",
    ]
    if not config.judge.self_test:
        lines.insert(-1, "  self-test  OFF: nobody has looked whether the judge can be believed on this machine")
    if trouble := why_not_writable():
        lines.insert(-1, f"  cache      {trouble}: every run times baselines anew. KEVOLVE_CACHE=FOLDER moves it")
    changed = notice(config)
    if changed:
        lines.insert(1, f"  note       {changed}")
    if cluster:
        lines.insert(3, f"  cluster    joins {cluster[1]}")
    if in_a_job() and not Path(config.runs_dir).is_absolute():
        lines.append(
            f"  note       {config.runs_dir} is in this Ray job's own folder, which does not outlive it for long:"
            " type runs_dir=/A/MOUNTED/VOLUME"
        )
    console.print(Text("\n".join(lines)), soft_wrap=True)


def proposer_line(config: Config) -> str:
    """Which proposer, and why that one."""
    at = f" at {config.proposer.api_base}" if config.proposer.api_base else ""
    why = {
        "genetic": "no model is configured",
        "llm": f"{', '.join(config.proposer.models)}{at}",
        "mailbox": f"whoever answers {Path(config.runs_dir) / str(config.name) / 'mailbox'}",
    }.get(config.proposer.name)
    return f"{config.proposer.name} ({why})" if why else config.proposer.name


if __name__ == "__main__":
    sys.exit(main())
