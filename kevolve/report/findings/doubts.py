"""Doubts: what speaks against believing a number, in plain sentences. An empty list is a claim, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kevolve.environment import lasting
from kevolve.report.findings.history import History, SearchHistory
from kevolve.report.findings.left_out import left_out
from kevolve.report.findings.starting import tried

if TYPE_CHECKING:
    from kevolve.report.findings.finding import Finding

WIDE = 0.1  # half an interval, as a share of its value
FEW_EVALUATIONS = 10
DISTURBED_SHARE = 0.2
ABOVE_ROOFLINE = 1.05
FLATTERED = 0.9  # of the first look's speedup, or less, is what was confirmed


def doubts_about_run(history: History) -> tuple[str, ...]:
    """What concerns every number of the run."""
    return tuple(_about_run(history))


def doubts_about(history: History, search: SearchHistory, finding: Finding | None) -> tuple[str, ...]:
    """What concerns one search; `finding` is None if nothing was Scored."""
    return (*(_about_program(search, finding) if finding is not None else ()), *_about_search(search))


def _about_run(history: History) -> Iterator[str]:
    last = history.sessions[-1]
    if not last.ended:
        yield (
            "The run has not ended: it is still going on, or it was killed. What it would have confirmed at its end is "
            "not confirmed."
        )
    elif last.ended in ("interrupted", "faults"):
        what = (
            "was interrupted" if last.ended == "interrupted" else f"was stopped by faults of the machine {last.trouble}"
        )
        yield f"The run {what.strip()} before its budget was used up."
    judge = history.config["judge"]
    if judge.get("baselines", "all") != "all":
        yield f"Only {judge['baselines']} baselines were measured: torch.compile might be faster than what was beaten."
    for device, environment in history.environment.items():
        tier, tested = environment.get("sandbox_tier", ""), environment.get("self_test")
        if tier and tier != "bwrap":
            yield f"Programs on {device} ran in the {tier} tier of the sandbox, which is weaker than bwrap."
        if tested != "passed":
            why = {None: "is not recorded", "off": "was switched off"}.get(tested, f"did not run: {tested}")
            yield f"The judge's self-test on {device} {why}: nobody looked whether its promises hold on this machine."
    if len({str({k: lasting(v) for k, v in session.environment.items()}) for session in history.sessions}) > 1:
        yield "The machine, toolchain or sandbox changed between sessions: their first looks do not compare."
    if len(history.judge_versions) > 1:
        yield f"{len(history.judge_versions)} versions of the judge took part; their verdicts may differ in strictness."
    if history.summary.faults:
        yield f"The machine failed {history.summary.faults} times while judging; that counts as no score."


def _about_search(search: SearchHistory) -> Iterator[str]:
    evaluations = tried(search.entries.values())
    if not evaluations:
        yield "The search came to no program: only starting programs were judged."
    elif evaluations < FEW_EVALUATIONS:
        yield f"Only {evaluations} programs were tried beyond the starting ones: the search has hardly begun."
    wrong, failed = left_out(search.dropped, wrong=True), left_out(search.dropped, wrong=False)
    if wrong:
        yield f"Baselines left out as wrong, so the speedup there is over the others: {'; '.join(wrong)}."
    if failed:
        yield f"Baselines left out because they fail: {'; '.join(failed)}."


def _about_program(search: SearchHistory, finding: Finding) -> Iterator[str]:
    assert finding.speedup is not None
    assert finding.interval is not None
    low, high = finding.interval
    if finding.state == "unconfirmed":
        yield f"The program is not confirmed: {finding.reason}."
    elif finding.state == "unsure":
        yield f"The interval {low:.2f}x to {high:.2f}x holds 1: it may be no faster than the fastest baseline."
    found = search.entries[finding.program or ""].interval
    if finding.state != "unconfirmed" and found is not None and high < found[0]:
        yield f"Fresh data did not bear out the first look: {finding.speedup:.2f}x, and {finding.found:.2f}x then."
    elif finding.state != "unconfirmed" and finding.found and finding.speedup < FLATTERED * finding.found:
        yield f"The first look flattered it: {finding.found:.2f}x then, {finding.speedup:.2f}x on fresh data."
    if (high - low) / 2 > WIDE * finding.speedup:
        yield f"The interval is wide ({low:.2f}x to {high:.2f}x): the machine was noisy or the pairs were few."
    if finding.holdout and finding.holdout_interval and finding.holdout_interval[1] < low:
        yield (
            f"It gains less on sizes that the search never saw: {finding.holdout:.2f}x on holdout workloads, "
            f"{finding.speedup:.2f}x on those it was chosen by."
        )
    yield from _about_workloads(finding)


def _about_workloads(finding: Finding) -> Iterator[str]:
    if finding.losses:
        listed = ", ".join(f"{w.name} ({w.role}, {w.speedup:.2f}x)" for w in finding.losses)
        yield f"Slower than the fastest baseline on {listed}."
    if finding.unmeasured:
        yield f"Not measured on {', '.join(finding.unmeasured)}: it may be slower there."
    unsure = [w.name for w in finding.workloads if w.speedup < 1 and not w.is_surely_slower]
    if unsure:
        yield f"Perhaps slower on {', '.join(unsure)}: the interval holds 1."
    if finding.undecided:
        yield f"Not surely faster on {', '.join(finding.undecided)}: the interval reaches 1."
    noisy = [w.name for w in finding.workloads if w.pairs and w.disturbed > DISTURBED_SHARE * w.pairs]
    if noisy:
        yield f"Other work of the machine disturbed many pairs on {', '.join(noisy)}; they were taken anew."
    cached = [w.name for w in finding.workloads if w.roofline > ABOVE_ROOFLINE]
    if cached:
        yield f"Beyond the copy rate of memory on {', '.join(cached)}: the data stays in a cache there."
