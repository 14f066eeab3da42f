"""Two runs beside each other: what each came to, workload by workload, and why the numbers may not compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Console

from kevolve.configuration.schema import shown
from kevolve.report.findings.finding import Finding
from kevolve.report.findings.review import Review
from kevolve.report.page.show import between, times
from kevolve.report.text import say, table_of
from kevolve.screen import clock

Measured = tuple[float | None, tuple[float, float] | None]  # a speedup with its interval

BESIDE = ("name", "resume", "runs_dir", "tracking")  # of the configuration: says nothing about a result


def show(first: Review, second: Review, console: Console) -> None:
    """Print the comparison."""
    console.print(say(f"{first.name} (1) and {second.name} (2)", "bold"))
    for number, review in enumerate((first, second), start=1):
        spent = review.spent
        told = f"  {number}  {review.started}, {clock(spent.seconds)} min, {spent.judged} judged, {spent.scored} scored"
        console.print(say(f"{told}, {review.ended or 'not ended'}"), soft_wrap=True)
    for name, values in differences(first, second):
        console.print(say(f"  {name}: {values[0]} (1), {values[1]} (2)"), soft_wrap=True)
    console.print()
    ours, theirs = _by_place(first), _by_place(second)
    for place in dict.fromkeys([*ours, *theirs]):
        _place(place, ours.get(place), theirs.get(place), console)
    for line in caution(first, second):
        console.print(say(line, "yellow"), soft_wrap=True)


def differences(first: Review, second: Review) -> Iterator[tuple[str, tuple[str, str]]]:
    """What the two were told or stood on differently: (key, the two values)."""
    for here, there in ((first.config, second.config), (first.environment, second.environment)):
        ours, theirs = _flat(here), _flat(there)
        for name in dict.fromkeys([*ours, *theirs]):
            values = ours.get(name, "not there"), theirs.get(name, "not there")
            if values[0] != values[1] and name.partition(".")[0] not in BESIDE and not name.endswith(".flags"):
                yield name, values


def caution(first: Review, second: Review) -> Iterator[str]:
    """Why the winner of the tables above may not be the better program."""
    both = set(_by_place(first)) & set(_by_place(second))
    if not both:
        yield "The runs have no operator on the same device in common: there is nothing to compare."
        return
    yield (
        "Each number was measured in its own run, over the baselines as they were then: the difference between two is "
        "sure only if both programs are measured again in one session."
    )
    for operator, _ in sorted(both):
        yield f"  python -m kevolve.champions --operator {operator} --from {second.name}"


def _place(place: tuple[str, str], a: Finding | None, b: Finding | None, console: Console) -> None:
    console.print(say(" on ".join(place), "bold"))
    if a is None or b is None:
        console.print(say(f"  only in {'2' if a is None else '1'}"))
        return
    table = table_of("  ", "1>", "interval", "2>", "interval", "2 / 1>")
    table.add_row("  all", *_row((a.speedup, a.interval), (b.speedup, b.interval)))
    table.add_row("  unseen sizes", *_row((a.holdout, a.holdout_interval), (b.holdout, b.holdout_interval)))
    other = {w.name: w for w in b.workloads}
    for w in a.workloads:
        v = other.get(w.name)
        table.add_row(
            say(f"  {w.name}"), *_row((w.speedup, w.interval), (v.speedup, v.interval) if v else (None, None))
        )
    console.print(table)
    for number, finding in enumerate((a, b), start=1):
        console.print(say(f"  {number}: {finding.claim}; {finding.program or 'no program'}", "dim"), soft_wrap=True)
    console.print()


def _row(first: Measured, second: Measured) -> list[str]:
    ratio = f"{second[0] / first[0]:.2f}" if first[0] and second[0] else "–"
    return [times(first[0]), between(first[1]), times(second[0]), between(second[1]), ratio]


def _by_place(review: Review) -> dict[tuple[str, str], Finding]:
    return {(finding.operator, finding.device): finding for finding in review.findings}


def _flat(tree: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = shown(value)
    return found
