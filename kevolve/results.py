"""The end of a run on the screen: what was found, how sure it is, and what to type next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kevolve.config import Config
from kevolve.operators.custom.bring import run_folder
from kevolve.operators.custom.definition import kept_file
from kevolve.progress import Progress
from kevolve.report.listener import PAGE
from kevolve.screen import clock, percent
from kevolve.summary import Best, Result, Summary
from kevolve.tracking.address import redact
from kevolve.trouble import resume_command


def show_results(summary: Summary, progress: Progress, config: Config, console: Console) -> None:
    """The table of results, the counts, and the commands that go on from here."""
    console.print()
    for result in summary.results:
        if result.best is None:
            console.print(Text(f"{result.operator} on {result.device}: no program was scored."))
        else:
            doubt = progress.doubts.get((result.operator, result.device), "")
            console.print(_heading(result, result.best, doubt, config), soft_wrap=True)
            console.print(_workloads(result))
    console.print(Text(counts(summary)), soft_wrap=True)
    for line in models(summary):
        console.print(Text(line), soft_wrap=True)
    for line in next_commands(summary, config):
        console.print(Text(line, style="dim"), soft_wrap=True)


def is_better(result: Result) -> bool:
    """Was a confirmed program found that beats the fastest baseline, and not only within the error of timing?"""
    best = result.best
    return best is not None and best.confirmed and best.interval[0] > 1


def counts(summary: Summary) -> str:
    """One line: how many programs, what became of them, what it took."""
    rejected = ", ".join(f"{count} by {stage}" for stage, count in summary.rejected.items() if count) or "none"
    parts = [
        f"{summary.judged} programs judged in {clock(summary.seconds)}",
        f"{summary.scored} scored",
        f"rejected: {rejected}",
        f"reused verdicts: {summary.reused}",
        f"faults: {summary.faults}",
        f"sandbox: {summary.sandbox or 'unknown'}",
    ]
    if summary.tokens:
        is_known = all(tally.cost_usd is not None for tally in summary.models.values())
        cost = f"{summary.cost_usd:.2f} USD" if is_known else "at an unknown price (proposer.prices)"
        parts.append(f"{summary.tokens} tokens, {cost}")
    return "; ".join(parts) + "."


def models(summary: Summary) -> Iterator[str]:
    """A line for each model: what its replies were, and how many of its programs and repairs were right."""
    for name, tally in summary.models.items():
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in tally.outcomes.items())
        cost = "price unknown" if tally.cost_usd is None else f"{tally.cost_usd:.2f} USD"
        repairs = f"; {tally.repaired} of {tally.repairs} repairs right" if tally.repairs else ""
        right = f"{tally.scored} of {tally.judged} programs right{repairs}"
        yield f"{name}: {tally.calls} calls ({outcomes}), {cost}; {right}"


def next_commands(summary: Summary, config: Config) -> Iterator[str]:
    """What to type to look closer, to go on, and to check a winner."""
    page = Path(config.runs_dir) / summary.name / PAGE
    if page.exists():
        yield f"report       {page}"
    if config.tracking.enabled:
        uri = redact(config.tracking.uri)
        yield f"look closer  {uri if uri.startswith('http') else f'mlflow ui --backend-store-uri {uri}'}"
    more = f"budget.evaluations={2 * config.budget.evaluations} budget.minutes={2 * config.budget.minutes:g}"
    more = "" if summary.stopped in ("interrupted", "faults") else f" {more}"
    yield f"go on        {resume_command(config)}{more}"
    own = kept_file(run_folder(config))
    source = f" --operator-file {own}" if own else ""
    for result in summary.results:
        folder = Path(config.runs_dir) / summary.name / "champions" / result.operator / result.device
        for file in sorted(folder.glob("program.*")):
            yield f"judge again  python -m kevolve.judge {file} --operator {result.operator}{source}"


def _heading(result: Result, best: Best, doubt: str, config: Config) -> Text:
    low, high = best.interval
    losses = ", ".join(f"{row.name} ({row.speedup:.2f}x)" for row in result.workloads if row.speedup < 1)
    if is_better(result) and losses:
        state = (f"confirmed on fresh data, but slower on {losses}", "bold yellow")
    elif is_better(result):
        state = ("confirmed on fresh data", "bold green")
    elif best.confirmed:
        state = ("confirmed on fresh data, but not surely faster than the baseline", "bold yellow")
    else:
        state = (f"not confirmed{f' ({doubt})' if doubt else ''}", "bold yellow")
    rival = "fastest baseline" if config.judge.baselines == "all" else f"fastest {config.judge.baselines} baseline"
    return Text.assemble(
        (result.operator, "bold"),
        f" on {result.device}: ",
        (f"{best.speedup:.2f}x", "bold"),
        f" [{low:.2f}, {high:.2f}] over the {rival}, worst search workload {best.worst_speedup:.2f}x, "
        f"{_unseen(result)}, "
        f"{percent(best.roofline)} of the roofline, {best.language} program {best.program[:8]}, ",
        state,
    )


def _unseen(result: Result) -> str:
    """The worst of the holdout workloads, which only a confirmation measures."""
    held = [row for row in result.workloads if row.role == "holdout"]
    if not held:
        return "no holdout workload measured"
    worst = min(held, key=lambda row: row.speedup)
    return f"worst unseen {worst.speedup:.2f}x ({worst.name})"


def _workloads(result: Result) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 2))
    for heading, side in (("workload", "left"), ("role", "left"), ("fastest baseline", "left")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    for heading in ("baseline us", "program us", "speedup"):
        table.add_column(heading, justify="right")
    for row in result.workloads:
        numbers = (f"{row.baseline_us:.1f}", f"{row.us:.1f}", f"{row.speedup:.2f}x")
        table.add_row(row.name, row.role, row.baseline, *numbers)
    return table
