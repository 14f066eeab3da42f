"""The review of a run: its findings beside what was spent, where it was measured and what to type next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kevolve.config import Config
from kevolve.export.choosing import family_of, package_name
from kevolve.model_tally import ModelTally
from kevolve.report.findings.doubts import doubts_about_run
from kevolve.report.findings.finding import Finding, finding_of
from kevolve.report.findings.history import History

PACKAGE = "my_kernel"  # the folder that a champion is taken home as
USES = {
    "baselines": "compiling and timing baselines",
    "programs": "judging programs",
    "confirmations": "confirming the best on fresh data",
}


@dataclass(frozen=True)
class Spent:
    """What a run took. `uses` are seconds of devices by use; the rest is set-up, proposing and building."""

    seconds: float
    uses: Mapping[str, float]
    judged: int
    scored: int
    reused: int
    refused: int
    faults: int
    tokens: int
    cost_usd: float | None  # None if the price of a model is not known
    models: Mapping[str, ModelTally]

    @property
    def rest(self) -> float:
        return max(0.0, self.seconds - sum(self.uses.values()))


@dataclass(frozen=True)
class Review:
    """Everything that is shown of a run, plain enough for JSON. `started` is in UTC.

    `told` says in a sentence or two what the findings come to.
    """

    name: str
    folder: str
    experiment: str | None
    started: str
    ended: str
    sessions: int
    findings: tuple[Finding, ...]
    told: tuple[str, ...]
    doubts: tuple[str, ...]
    spent: Spent
    sandbox: str
    judge_versions: tuple[str, ...]
    environment: Mapping[str, Mapping[str, Any]]
    config: Mapping[str, Any]


def review_of(history: History) -> Review:
    """The review of what `history` tells."""
    summary = history.summary
    findings = tuple(finding_of(history, search) for search in history.searches.values())
    spent = Spent(
        seconds=summary.seconds,
        uses={use: sum(search.seconds[use] for search in history.searches.values()) for use in USES},
        judged=summary.judged,
        scored=summary.scored,
        reused=summary.reused,
        refused=sum(search.refused.total() for search in history.searches.values()),
        faults=summary.faults,
        tokens=summary.tokens,
        cost_usd=None if any(model.cost_usd is None for model in summary.models.values()) else summary.cost_usd,
        models=summary.models,
    )
    return Review(
        name=history.name,
        folder=str(history.folder),
        experiment=summary.experiment,
        started=datetime.fromtimestamp(history.sessions[0].started, UTC).isoformat(timespec="minutes"),
        ended=history.sessions[-1].ended,
        sessions=len(history.sessions),
        findings=findings,
        told=tuple(_told(findings)),
        doubts=doubts_about_run(history),
        spent=spent,
        sandbox=summary.sandbox,
        judge_versions=tuple(sorted(history.judge_versions)),
        environment=history.environment,
        config=history.config,
    )


def _told(findings: Sequence[Finding]) -> Iterator[str]:
    """How many are confirmed, and whether the search found them at all."""
    shown = [f for f in findings if f.program is not None]
    if not shown:
        return
    confirmed = [f for f in shown if f.state != "unconfirmed"]
    verb = "is" if len(confirmed) == 1 else "are"
    yield f"{len(confirmed)} of {len(shown)} champions {verb} confirmed on fresh data."
    losing = [f"{w.name} of {f.operator} ({w.speedup:.2f}x)" for f in confirmed for w in f.losses]
    if losing:
        yield f"Of the confirmed, surely slower than the fastest baseline: {', '.join(losing)}."
    started = [f.operator for f in shown if f.is_start]
    tried = sum(f.tried for f in findings)
    if len(started) == len(shown):
        what = f"{tried} were tried, and none was better" if tried else "none was tried"
        yield f"No program was found by search ({what}): these are starting programs."
    elif started:
        yield f"Starting programs, which the search did not improve on: {', '.join(started)}."


def commands(review: Review, finding: Finding) -> list[tuple[str, str]]:
    """What to type to check a program, to use it, and to make it the kept champion: (purpose, command)."""
    if finding.program is None:
        return []
    runs_dir = str(Path(review.folder).parent)
    if finding.state == "unconfirmed":
        return [("confirm it first: the run measures its best again when it ends", _go_on(review, runs_dir))]
    elsewhere = "" if runs_dir == Config().runs_dir else f" --runs-dir {runs_dir}"
    about = f"--operator {finding.operator}"
    place = Path(review.folder) / "champions" / finding.operator / finding.device
    file = next(iter(sorted(place.glob("program.*"))), place / "program")
    own = "" if not review.config.get("operator_file") else f" --operator-file {_own_file(review)}"
    device = f"--device {finding.device} --out {PACKAGE}"
    return [
        ("judge it again, here and now", f"python -m kevolve.judge {file} {about}{own}"),
        ("take it home as a package", f"python -m kevolve.export {review.name} {about} {device}{elsewhere}"),
        (
            "measure it against the kept champion",
            f"python -m kevolve.champions {about} --from {review.name}{elsewhere}",
        ),
    ]


def usage(finding: Finding) -> str:
    """How the exported package is used, as lines to type; empty where there is no champion or no package of it."""
    family = family_of(finding.device)
    if finding.program is None or finding.state == "unconfirmed" or family is None:
        return ""
    call = finding.call or f"{finding.operator}(...)  # help({finding.operator}) says what it takes"
    package = package_name(finding.operator, family)
    return f"pip install ./{PACKAGE}\n\nfrom {package} import {finding.operator}\n\n{call}"


def _go_on(review: Review, runs_dir: str) -> str:
    """What goes on with the run; one that has used up its budget needs more of it."""
    budget, given = review.config.get("budget", {}), ""
    if review.ended not in ("interrupted", "faults", ""):
        given = "".join(
            f" budget.{name}={2 * budget[name]:g}" for name in ("minutes", "evaluations") if budget.get(name)
        )
    elsewhere = "" if runs_dir == Config().runs_dir else f" runs_dir={runs_dir}"
    return f"python -m kevolve.run resume=true name={review.name}{elsewhere}{given}"


def _own_file(review: Review) -> str:
    from kevolve.operators.custom.definition import kept_file

    return str(kept_file(Path(review.folder)) or review.config["operator_file"])
