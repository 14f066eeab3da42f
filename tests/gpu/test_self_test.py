"""The self-test on a real GPU: it passes, and a judge that does not keep a promise is found out by the right canary."""

from __future__ import annotations

import time

import pytest

from kevolve.judge import selftest
from kevolve.judge.cuda import content
from kevolve.judge.cuda.content import Block
from kevolve.judge.cuda.timing import Stopwatch
from kevolve.judge.selftest import canaries, self_test
from kevolve.operators.custom.operator import CustomOperator

SECONDS = 30.0
TRIES = 3  # a random sample may hold what a canary does once

# the canary that must notice, and what is broken: an object, its attribute, and what that becomes
BROKEN = {
    "sums_in_half_precision": (CustomOperator, "check", lambda *about: None),
    "writes_beside_its_output": (Block, "reject_if_spilled", lambda *about: None),
    "leaves_out_a_row_once": (Block, "reject_if_unwritten", lambda *about: None),
    "replays_its_last_answer": (Block, "reject_if_wrong", lambda *about: None),
    "reads_beside_its_input": (content, "_BEYOND", 0),
}


def alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """From now on there is no other canary."""
    [chosen] = [canary for canary in canaries("triton") if canary.name == name]
    monkeypatch.setattr(selftest, "canaries", lambda language: [chosen])


def test_the_judge_keeps_its_promises_on_this_machine_within_seconds(bench):
    began = time.monotonic()
    assert [str(one) for one in self_test(bench.judge)] == []
    seconds = time.monotonic() - began
    print(f"self-test: {seconds:.1f} s")
    assert seconds < SECONDS


@pytest.mark.parametrize("name", BROKEN)
def test_a_judge_that_breaks_a_promise_is_found_out(name, bench, monkeypatch):
    selftest._ready(bench.judge, "triton")
    alone(monkeypatch, name)
    monkeypatch.setattr(*BROKEN[name])
    bench.judge.inputs.bytes.zero_()  # earlier NaN between inputs would help the judge
    found = [one.canary.name for _ in range(TRIES) for one in self_test(bench.judge)]
    assert name in found


def test_a_judge_that_mistakes_times_is_found_out(bench, monkeypatch):
    selftest._ready(bench.judge, "triton")
    alone(monkeypatch, "does_it_twice")
    real = Stopwatch._program

    def flattering(watch: Stopwatch, trial) -> None:
        real(watch, trial)
        trial.program[-1] /= 2

    monkeypatch.setattr(Stopwatch, "_program", flattering)
    monkeypatch.setattr(selftest, "TRIES", 1)
    assert [one.canary.name for one in self_test(bench.judge)] == ["does_it_twice"]
