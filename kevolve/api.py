"""kevolve as a call: `kevolve.evolve(reference, make_inputs, workloads)` gives the champion back as a function.

It is the same run as `python -m kevolve.run operator_file=...`: same judge, same folder, resumed by either. It works
where an event loop is running already, as in a notebook: the driver then has a thread of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kevolve.config import Budget, Config, DeviceConfig, TrackingConfig
from kevolve.errors import UsageError

if TYPE_CHECKING:
    from kevolve.champion import Champion
    from kevolve.search.evolution import Interrupt
    from kevolve.summary import Best, Summary


@dataclass(frozen=True)
class Evolved:
    """What a run has come to. Without a champion, whatever asks for it raises UsageError that says why."""

    summary: Summary
    folder: Path

    @cached_property
    def champion(self) -> Champion:
        """The fastest confirmed program, compiled, to be called like the reference."""
        from kevolve.champion import build_champion
        from kevolve.operators.custom.given import load_given
        from kevolve.program import Program

        operator = load_given(self.summary.results[0].operator) if self.source else None
        assert operator is not None
        return build_champion(operator, Program(operator.name, self._best.language, self.source))

    @property
    def speedup(self) -> float:
        """Over the fastest baseline, as the geometric mean of the search workloads, measured again on fresh data."""
        return self._best.speedup

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of `speedup`."""
        return self._best.interval

    @property
    def source(self) -> str:
        """The champion's C++ text."""
        result = self.summary.results[0]
        assert self._best.confirmed
        (file,) = (self.folder / "champions" / result.operator / result.device).glob("program.*")
        return file.read_text()

    @property
    def _best(self) -> Best:
        best = self.summary.results[0].best if self.summary.results else None
        if best is not None and best.confirmed:
            return best
        counts = ", ".join(f"{count} by {stage}" for stage, count in self.summary.rejected.items() if count)
        why = f"{self.summary.scored} programs were right, rejected: {counts or 'none'}, {self.summary.stopped}"
        raise UsageError(
            f"{self.folder.name}: there is no champion ({why}).\n"
            f"  See {self.folder}/events.jsonl, or go on: resume=True, name={self.folder.name!r}, and more minutes."
        )


def evolve(
    reference: Callable[..., Any],
    make_inputs: Callable[..., Any],
    workloads: Sequence[Mapping[str, Any]],
    *,
    name: str | None = None,
    program: str | Path | None = None,
    baselines: Mapping[str, Callable[..., Any]] | None = None,
    check: Callable[..., str | None] | None = None,
    oracle: Callable[..., Any] | None = None,
    cost: Callable[..., tuple[int, int]] | None = None,
    device: str = "auto",
    evaluations: int = 60,
    minutes: float = 3.0,
    seed: int = 0,
    runs_dir: str | Path = "populations/runs",
    resume: bool = False,
    tracking: bool = False,
    quiet: bool = False,
) -> Evolved:
    """Find a faster program for `reference`; see the README, "Your own operator", for what the parts must be.

    `name` is the run's (its folder in `runs_dir`), which `resume` goes on with as it was defined then; `program` is C++
    to start from, as text or as a file's path, derived from the reference if None; `evaluations` and `minutes` are the
    budget. An interrupt ends the search, saves it and returns what there is. Raises UsageError with what to
    change, and FaultsStopped if the machine kept failing.
    """
    from kevolve.operators.custom.definition import given_program, pickled
    from kevolve.operators.custom.given import give

    began = time.monotonic()
    if resume and name is None:
        raise UsageError("resume=True: which run? Give its name, as in name='mine'.")
    called = str(getattr(reference, "__name__", "operator"))
    operator = called if called.isidentifier() else "operator"
    optional = {"baselines": baselines, "check": check, "oracle": oracle, "cost": cost}
    parts = {"reference": reference, "make_inputs": make_inputs, "workloads": list(workloads), **optional}
    give([pickled(parts, operator, given_program(program))])
    config = Config(
        operators=[operator],
        name=name or f"{operator}-{datetime.now():%Y%m%d-%H%M%S}",
        seed=seed,
        resume=resume,
        runs_dir=str(runs_dir),
        budget=Budget(evaluations, float(minutes)),
        device=DeviceConfig(device),
        tracking=TrackingConfig(enabled=tracking),
    )
    _check(config)
    return Evolved(_beside_a_loop(lambda on_start: _run(config, began, quiet, on_start)), _folder(config))


def _check(config: Config) -> None:
    from kevolve.configuration.schema import flat_values, shown
    from kevolve.configuration.validate import check

    flat = flat_values(config)
    problems = check(flat, lambda key: f"{key}={shown(flat[key])}")
    if problems:
        raise UsageError("\n  ".join(problems))


def _run(config: Config, began: float, quiet: bool, on_start: Callable[[Interrupt], object]) -> Summary:
    from kevolve.quiet import VARIABLES, RunLog
    from kevolve.report import Reporter
    from kevolve.results import show_results
    from kevolve.screen import console, screen
    from kevolve.tracking import Tracking

    for variable, value in VARIABLES.items():
        os.environ.setdefault(variable, value)
    from kevolve.search.evolution import evolve as search

    shown = console()
    view = screen(config, shown)
    watching = [] if quiet else [view]
    report = Reporter(config, view.note)
    tracked = [Tracking(config, view.note)] if config.tracking.enabled else []
    try:
        summary = search(config, [RunLog(config), *watching, report, *tracked], began=began, on_start=on_start)
    finally:
        view.stop()
    if not quiet:
        show_results(summary, view.progress, config, shown)
    return summary


def _folder(config: Config) -> Path:
    return Path(config.runs_dir) / str(config.name)


def _beside_a_loop(work: Callable[[Callable[[Interrupt], object]], Summary]) -> Summary:
    """Do the work here, or in a thread if this one has a running event loop; an interrupt here then reaches it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work(lambda interrupt: None)
    thread = _Apart(work)
    with _interrupts_raised():
        thread.start()
        while not thread.over.is_set():
            try:
                thread.over.wait()
            except KeyboardInterrupt:
                thread.interrupt()
    return thread.result()


@contextmanager
def _interrupts_raised() -> Iterator[None]:
    """Inside, a Ctrl-C is a KeyboardInterrupt: an event loop that waits for us would hear of it only afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Apart(threading.Thread):
    """Work in a thread that can be interrupted, also before it has said how."""

    def __init__(self, work: Callable[[Callable[[Interrupt], object]], Summary]) -> None:
        super().__init__(name="kevolve", daemon=True)
        self.work = work
        self.summary: Summary | None = None
        self.error: BaseException | None = None
        self.stop: Interrupt | None = None
        self.is_unwanted = False
        self.over = threading.Event()  # an interrupted `join` takes the thread for ended

    def run(self) -> None:
        try:
            self.summary = self.work(self.started)
        except BaseException as error:
            self.error = error
        finally:
            self.over.set()

    def started(self, stop: Interrupt) -> None:
        self.stop = stop
        if self.is_unwanted:
            stop()

    def interrupt(self) -> None:
        self.is_unwanted = True
        if self.stop is not None:
            self.stop()

    def result(self) -> Summary:
        if self.error is not None:
            raise self.error
        assert self.summary is not None
        return self.summary
