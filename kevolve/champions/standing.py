"""Standing: is a champion still right, and still faster than the fastest baseline, on this machine as it is today?

A new driver, compiler or PyTorch may have changed what the program computes, how fast it is, or how fast what it is
compared with has become. So the judge confirms it once more, and what was measured then is only shown beside that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from kevolve.champions.champion import Champion, judgement_json
from kevolve.champions.contest import judge_again, shown
from kevolve.verdict import Fault, Judgement, Rejected, Scored

if TYPE_CHECKING:
    from kevolve.judge.judge import Judge
    from kevolve.operators.custom.definition import Definition

Finding = Literal["holds", "wrong", "slower", "fault"]


@dataclass(frozen=True)
class Standing:
    """What came of measuring a champion again. It holds if it is right and its speedup is above one."""

    champion: Champion
    judgement: Judgement

    @property
    def finding(self) -> Finding:
        match self.judgement.verdict:
            case Scored(fitness=fitness):
                return "holds" if fitness.speedup > 1.0 else "slower"
            case Rejected():
                return "wrong"
            case Fault():
                return "fault"

    @property
    def sentence(self) -> str:
        """For people: what was found, and what was known before."""
        was = f"was {shown(self.champion.fitness)}"
        match self.judgement.verdict:
            case Scored(fitness=fitness):
                low, high = fitness.interval
                doubt = ", which is not sure" if low <= 1.0 <= high else ""
                word = "still faster" if self.finding == "holds" else "no longer faster"
                return f"{word}{doubt}: {shown(fitness)}, {was}"
            case Rejected(stage=stage, reason=reason):
                return f"no longer right ({stage}): {reason}; {was}"
            case Fault(kind=kind, reason=reason):
                return f"could not be judged, the machine failed ({kind}): {reason}"

    def as_json(self) -> dict[str, Any]:
        """The same for programs, with the whole judgement."""
        before = self.champion.fitness
        return {
            "operator": self.champion.operator,
            "device": self.champion.device,
            "program": self.champion.program,
            "run": self.champion.run,
            "finding": self.finding,
            "sentence": self.sentence,
            "before": {"speedup": before.speedup, "interval": before.interval},
            "now": judgement_json(self.judgement),
        }


def confirm_all(
    champions: Sequence[tuple[Champion, Definition | None]],
    new_judge: Callable[[str], Judge],
    seed: int,
    say: Callable[[str], None],
) -> Iterator[Standing]:
    """Each champion's standing, as it is found. `new_judge` makes a judge for a device key.

    Champions of a device share a judge, unless they are of operators of the user's own, which may share a name.
    """
    from kevolve.operators.custom.given import give

    def judged_together(pair: tuple[Champion, Definition | None]) -> tuple[str, str]:
        champion, definition = pair
        return champion.device, definition.digest if definition is not None else ""

    ordered = sorted(champions, key=lambda pair: (*judged_together(pair), pair[0].operator, pair[0].run))
    for (device, _), group in groupby(ordered, judged_together):
        members = list(group)
        give([definition for _, definition in members[:1] if definition is not None])
        judge = new_judge(device)
        try:
            for champion, _ in members:
                say(f"measuring {champion.operator} on {device}, {champion.program[:8]} of {champion.run} ...")
                yield Standing(champion, judge_again(judge, champion, seed))
        finally:
            judge.close()
