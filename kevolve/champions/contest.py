"""A contest: two champions of one operator and device key, both judged again on this machine in one session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kevolve.champions.champion import Champion, judgement_json, keep
from kevolve.languages.language import Built
from kevolve.verdict import Fault, Fitness, Judgement, Scored

if TYPE_CHECKING:
    from kevolve.judge.judge import Judge

Say = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """Who is champion now, and why. `winner` is None if nobody was found fit, or the machine failed."""

    winner: Champion | None
    reason: str
    challenger: Judgement
    holder: Judgement | None = None

    @property
    def has_fault(self) -> bool:
        return any(isinstance(told.verdict, Fault) for told in (self.challenger, self.holder) if told is not None)


def contest(judge: Judge, challenger: Champion, holder: Champion | None, seed: int, say: Say) -> Outcome:
    """Judge both with the pairs and workloads of a confirmation. `say` hears what is being measured."""
    defence = None
    if holder is not None:
        say(f"measuring {holder.program[:8]} of {holder.run}, which is kept ...")
        defence = judge_again(judge, holder, seed)
    say(f"measuring {challenger.program[:8]} of {challenger.run} ...")
    attack = judge_again(judge, challenger, seed)
    winner, reason = decide(challenger, attack, holder, defence)
    return Outcome(winner, reason, attack, defence)


def decide(
    challenger: Champion, attack: Judgement, holder: Champion | None, defence: Judgement | None
) -> tuple[Champion | None, str]:
    """The winner and why: who challenges must be surely faster, so that noise alone changes no champion."""
    for judgement in (attack, defence):
        if judgement is not None and isinstance(judgement.verdict, Fault):
            return None, f"the machine failed ({judgement.verdict.kind}): {judgement.verdict.reason}"
    if not isinstance(attack.verdict, Scored):
        return holder, f"{challenger.program[:8]} is rejected here: {attack.verdict.reason}"
    new = attack.verdict.fitness
    if holder is None or defence is None:
        return challenger, "there was no champion of this operator on this device"
    if not isinstance(defence.verdict, Scored):
        return challenger, f"{holder.program[:8]} is rejected now: {defence.verdict.reason}"
    old = defence.verdict.fitness
    if new.interval[0] > old.interval[1]:
        return challenger, f"{shown(new)} against {shown(old)}: surely faster"
    how = "not faster" if new.speedup <= old.speedup else "faster, but the intervals overlap"
    return holder, f"{shown(new)} against {shown(old)}: {how}"


def store(outcome: Outcome, folder: Path, challenger: Champion, holder: Champion | None) -> Path | None:
    """Keep the winner in `folder`, with both numbers and when they were measured; None if there is no winner."""
    winner = outcome.winner
    if winner is None:
        return None
    is_new = winner is challenger
    loser, lost = (holder, outcome.holder) if is_new else (challenger, outcome.challenger)
    won = outcome.challenger if is_new else outcome.holder
    assert won is not None
    told: dict[str, Any] = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "reason": outcome.reason,
        "champion": judgement_json(won),
        "against": None,
    }
    if loser is not None and lost is not None:
        told["against"] = {"program": loser.program, "run": loser.run, **judgement_json(lost)}
    return keep(folder, winner, told)


def judge_again(judge: Judge, champion: Champion, seed: int) -> Judgement:
    """The verdict on a champion, measured now as a confirmation is."""
    program = champion.source()
    built = judge.prepare(program)
    if not isinstance(built, Built):
        return Judgement(judge.key(program), built, sandbox=judge.tier.name, seed=seed)
    survey = judge.survey(program.operator, seed)
    if isinstance(survey, Fault):
        return Judgement(judge.key(program), survey, sandbox=judge.tier.name, seed=seed)
    return judge.measure(program, built, survey, seed, confirm=True)


def shown(fitness: Fitness) -> str:
    """`2.10x [2.05, 2.15]`."""
    return f"{fitness.speedup:.2f}x [{fitness.interval[0]:.2f}, {fitness.interval[1]:.2f}]"
