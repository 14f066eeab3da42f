"""A judge that cannot be believed on this machine is found out before a run, with the promise that does not hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kevolve.judge.judge import Judge
from kevolve.judge.selftest import TRIES, Broken, canaries, refusal, self_test
from kevolve.operators.custom.operator import CustomOperator
from kevolve.program import Program
from kevolve.verdict import Fault, Judgement, Scored


def names(broken: list[Broken]) -> set[str]:
    return {one.canary.name for one in broken}


def test_the_judge_keeps_its_promises_on_this_machine(judge: Judge) -> None:
    assert self_test(judge) == []


def test_a_judge_that_takes_any_answer_is_not_believed(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CustomOperator, "check", lambda *about: None)
    broken = self_test(judge)
    assert "sums_in_half_precision" in names(broken)
    assert not names(broken) & {"writes_beside_its_output", "writes_to_its_input", "honest"}
    told = refusal("cpu-x", broken)
    assert '"no more than float32 rounding is forgiven": sums_in_half_precision must be rejected and was scored' in told
    assert "judge.self_test=false" in told


def test_a_judge_whose_timings_are_off_names_the_load(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*about: object, **more: object) -> Judgement:
        judgement = honest(*about, **more)  # type: ignore[arg-type]
        if isinstance(judgement.verdict, Scored):
            fitness = replace(judgement.verdict.fitness, interval=(1.4, 1.5))  # of any canary
            return replace(judgement, verdict=replace(judgement.verdict, fitness=fitness))
        return judgement

    honest = judge.measure
    monkeypatch.setattr(judge, "measure", measure)
    broken = self_test(judge)
    assert names(broken) == {"honest", "does_it_twice"}
    assert "Stop what else runs here" in refusal("cpu-x", broken)


def test_a_fault_is_tried_again_and_never_passes(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def measure(program: Program, *about: object) -> Judgement:
        tried.append(program.id)
        return Judgement(judge.key(program), Fault("sandbox", "gone"))

    monkeypatch.setattr(judge, "measure", measure)
    broken = self_test(judge)
    assert len(broken) == len(canaries("cpp"))
    assert len(tried) == TRIES * len(broken)
    assert "not judged, for a fault (sandbox): gone" in refusal("cpu-x", broken)
