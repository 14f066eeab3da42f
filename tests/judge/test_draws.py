"""Draws serve several programs, and then there are new ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kevolve.judge import draws as draws_room
from kevolve.judge.draws import PROGRAMS, Draws
from kevolve.judge.judge import Judge
from kevolve.judge.lease import Survey
from kevolve.judge.streams import Streams
from kevolve.languages.language import Built
from kevolve.program import Program
from kevolve.verdict import Judgement, Rejected, Verdict


def test_a_draw_is_the_same_whenever_it_is_asked_for_and_whether_or_not_it_is_kept(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = judge.operator("jagged_sum")
    kept = Draws(operator, Streams(b"secret", 7))
    monkeypatch.setattr(draws_room, "_MOST_BYTES", 0)
    unkept = Draws(operator, Streams(b"secret", 7))
    first, last = operator.workloads[0], operator.workloads[-1]
    for draws, order in ((kept, (first, last)), (unkept, (last, first))):
        for workload in order:
            draws.of(workload)
    assert kept.of(first) is kept.of(first)
    assert unkept.of(first) is not unkept.of(first)
    assert torch.equal(kept.of(first).inputs.values, unkept.of(first).inputs.values)
    for streams in (Streams(b"secret", 8), Streams(b"another", 7)):
        assert not torch.equal(kept.of(first).inputs.values, Draws(operator, streams).of(first).inputs.values)


def test_a_new_draw_comes_after_some_programs_and_for_every_confirmation(
    judge: Judge, survey: Survey, plain: str
) -> None:
    wrong = plain.replace("for (int64_t b = 0;", "for (int64_t b = 1;")
    assert wrong != plain
    program = Program("jagged_sum", "cpp", wrong)
    built = judge.prepare(program)
    assert isinstance(built, Built)
    judge.draws.clear()

    def inputs_seed(seed: int, confirm: bool = False) -> int:
        judgement: Judgement = judge.measure(program, built, survey, seed, confirm=confirm)
        return int(judgement.environment["inputs_seed"])

    assert inputs_seed(100) == 100
    assert inputs_seed(101) == 100
    assert inputs_seed(102, confirm=True) == 102
    judge.draws["jagged_sum"].programs = PROGRAMS
    assert inputs_seed(103) == 103


def test_a_program_that_is_wrong_only_now_and_then_is_caught_while_it_is_timed(
    verdict_on: Callable[[str], Verdict], plain: str
) -> None:
    """Right on the first call of every size, as a correctness check would see it, and then skips work."""
    loop = "for (int64_t b = 0;"
    remember = "static int64_t seen = -1; int64_t known = seen == dim; seen = dim;\n    "
    cheat = plain.replace(loop, remember + "for (int64_t b = known ? batch : 0;")
    assert cheat != plain
    verdict = verdict_on(cheat)
    assert isinstance(verdict, Rejected)


def test_what_timed_content_is_made_from_is_never_given_as_it_is_and_exceeds_a_cores_caches(judge: Judge) -> None:
    operator = judge.operator("jagged_sum")
    draws = Draws(operator, Streams(b"secret", 7))
    small, other = (w for w in operator.workloads if w.name in ("small", "main"))
    source = draws.source(small).values
    assert source.nbytes >= 32 << 20
    assert source is draws.source(other).values  # made once
    shown = draws.of(small).inputs.values.flatten()[:16]
    assert not bool((source.unfold(0, 16, 16) == shown).all(-1).any())
    rng = Streams(b"secret", 7)
    one, another = (operator.refresh(draws.source(small), small, rng.next_call()) for _ in range(2))
    assert 0.8 < float(one.values.std()) < 1.3
    assert not torch.equal(one.values[:8], another.values[:8])
