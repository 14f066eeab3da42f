"""What the judge of a GPU makes of answers and times, on memory of the CPU: no GPU is needed to see it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from kevolve.devices.device import Peaks
from kevolve.judge.correctness import Rejection
from kevolve.judge.cuda.content import Block
from kevolve.judge.cuda.memory import Arena
from kevolve.judge.cuda.peer import Queueing
from kevolve.judge.cuda.timing import Stopwatch
from kevolve.judge.race import Rules, race
from kevolve.judge.streams import Streams
from kevolve.operators.custom.definition import Definition
from kevolve.operators.custom.operator import CustomOperator
from kevolve.operators.registry import load_operator

PEAKS = Peaks(1e12, 1e12, 2e12, 1e15)
CACHE_BYTES = 1 << 16


@pytest.fixture
def operator(monkeypatch):
    """jagged_sum with a few small workloads, whose inputs stay on the CPU."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    whole = load_operator("jagged_sum")
    made = type(whole)(tuple(w for w in whole.workloads if w.name in ("small", "bfloat16", "misaligned_base", "d7")))
    drawn = made.make_inputs
    monkeypatch.setattr(made, "make_inputs", lambda workload, rng, device: drawn(workload, rng))
    return made


@pytest.fixture
def arenas():
    made = []
    for _ in range(2):
        memory = torch.zeros(64 << 20, dtype=torch.uint8)
        made.append(Arena(SimpleNamespace(bytes=memory, size=len(memory))))
    return tuple(made)


def workload(operator, name):
    return next(w for w in operator.workloads if w.name == name)


def answer(operator, call):
    for name, right in operator.oracle(call.given).items():
        call.outputs[name].tensor.copy_(right)


class Program:
    """A runner: answers rightly unless told otherwise, in `seconds` a call."""

    def __init__(self, operator, seconds, spoil=lambda call: None):
        self.operator, self.seconds, self.spoil = operator, seconds, spoil
        self.calls = []

    def prepare(self, name, calls):
        self.calls = calls

    def run(self, *, waits=True):
        for call in self.calls:
            answer(self.operator, call)
            self.spoil(call)
        own = self.seconds * len(self.calls)
        return own + 1e-4, own


class Baseline(Program):
    def prepare(self, operator, baseline, calls):
        self.calls = calls

    def run(self, *, waits=True):
        own = self.seconds * len(self.calls)
        return own + 1e-4, own


def watch(operator, arenas, program, baseline_s=2e-3):
    return Stopwatch(
        operator, program, Baseline(operator, baseline_s), arenas, PEAKS, lambda: PEAKS, Streams(b"secret", 0),
        CACHE_BYTES, 1.0,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["small", "bfloat16", "misaligned_base"])
def test_a_block_of_right_answers_passes_and_has_content_of_its_own(operator, arenas, name):
    block = Block(operator, workload(operator, name), arenas, Streams(b"secret", 0))
    calls = [block.draw(block.workload) for _ in range(3)]
    for call in calls:
        answer(operator, call)
    block.reject_if_spilled("timing")
    block.reject_if_unwritten()
    block.reject_if_wrong(calls[1])
    first, second = (call.given.values[:1] for call in calls[:2])
    assert not torch.equal(first, second)
    shift = calls[0].inputs["values"].offset % 16
    assert (shift != 0) == (name == "misaligned_base")


def test_one_element_that_is_left_as_it_was_is_found(operator, arenas):
    block = Block(operator, workload(operator, "small"), arenas, Streams(b"secret", 0))
    calls = [block.draw(block.workload) for _ in range(3)]
    left = calls[2].outputs["out"].tensor.clone()
    for call in calls:
        answer(operator, call)
    calls[2].outputs["out"].tensor[5, 7] = left[5, 7]
    with pytest.raises(Rejection, match="leaves outputs unwritten"):
        block.reject_if_unwritten()


def test_a_byte_beside_an_output_is_found(operator, arenas):
    block = Block(operator, workload(operator, "small"), arenas, Streams(b"secret", 0))
    call = block.draw(block.workload)
    answer(operator, call)
    region = call.outputs["out"]
    arenas[1].bytes[region.offset + region.tensor.nbytes] += 1
    with pytest.raises(Rejection, match="writes outside out"):
        block.reject_if_spilled("timing")


def test_speedup_is_the_ratio_of_the_devices_own_times(operator, arenas):
    watching = watch(operator, arenas, Program(operator, 1e-3))
    trial = watching.begin(workload(operator, "small"), "embedding_bag")
    race(watching, [trial], [trial], Rules(most=4, precise=0.01))
    watching.believable(trial)
    measured = watching.measurement(trial)
    assert measured.speedup == pytest.approx(2.0)
    assert measured.us == pytest.approx(1000.0)
    assert measured.cache == "cold"
    assert len(measured.ratios) == 4


def test_a_clock_that_tells_less_than_the_window_does_not_count_and_is_found(operator, arenas):
    program = Program(operator, 1e-3)
    watching = watch(operator, arenas, program)
    trial = watching.begin(workload(operator, "small"), "embedding_bag")
    program.run = lambda waits=True, honest=program.run: (honest()[0], honest()[1] / 10)
    for _ in range(3):
        watching.two_pairs(trial)
    assert min(trial.program) > 0.7e-3
    with pytest.raises(Rejection, match="two clocks disagree on small"):
        watching.believable(trial)


def test_what_is_gained_by_leaving_out_the_wait_is_found_by_blocks_without_one(operator, arenas):
    program = Program(operator, 1e-3)
    watching = watch(operator, arenas, program)
    trial = watching.begin(workload(operator, "small"), "embedding_bag")

    def run(*, waits=True, honest=program.run):
        window, own = honest()
        return window - waits * own, own / 10

    program.run = run
    watching.two_pairs(trial)
    assert max(trial.program) < 0.2e-3
    with pytest.raises(Rejection, match="two clocks disagree on small"):
        watching.believable(trial)


@pytest.mark.parametrize("told", [0.0, 1e-3, -1.0, 1e6, float("nan"), float("inf")])
def test_no_word_of_the_child_makes_a_wait_longer_than_the_judge_allows(told):
    queueing = Queueing(call_s=2e-5, most_s=2e-3)
    assert queueing.wait_s(10) == pytest.approx(2e-4)
    queueing.took(told, 10)
    assert 0 <= queueing.wait_s(10) <= 2e-3
    if told == 1e-3:
        assert queueing.wait_s(8) == pytest.approx(1e-3)


def test_what_no_device_can_do_is_impossible(operator, arenas):
    watching = watch(operator, arenas, Program(operator, 1e-9))
    trial = watching.begin(workload(operator, "small"), "embedding_bag")
    trial.calls = 16
    program = watching.runner
    program.run = lambda waits=True, honest=program.run: (honest()[1], honest()[1])
    watching.two_pairs(trial)
    with pytest.raises(Rejection, match="impossibly fast on small"):
        watching.believable(trial)


def test_a_wrong_answer_in_a_timed_call_is_found(operator, arenas):
    spoil = lambda call: call.outputs["out"].tensor.mul_(1.01)  # noqa: E731
    watching = watch(operator, arenas, Program(operator, 1e-3, spoil))
    trial = watching.begin(workload(operator, "small"), "embedding_bag")
    with pytest.raises(Rejection, match=r"wrong on small \(search\) in a timed call"):
        watching.two_pairs(trial)


def test_a_program_that_is_right_only_for_usual_values_is_found_by_odd_blocks(operator, arenas):
    def spoil(call):
        if float(call.given.values.float().abs().max()) > 100 or not call.given.values.isfinite().all():
            call.outputs["out"].tensor.zero_()

    watching = watch(operator, arenas, Program(operator, 1e-3, spoil))
    trial = watching.begin(workload(operator, "small"), "embedding_bag")
    watching.two_pairs(trial)

    def odd_blocks():
        for _ in range(30):
            watching.odd_block(trial)

    with pytest.raises(Rejection, match="wrong on small with"):
        odd_blocks()


BYTES = b"""
import torch

def reference(x):
    return {"is_big": x > 0, "level": x.abs().clamp(max=9).to(torch.uint8)}

def make_inputs(rng, count):
    return {"x": torch.randn(count, generator=rng)}

workloads = [dict(count=3000)]
"""


@pytest.mark.parametrize("number", range(4))
def test_an_unwritten_bool_is_seen_and_no_answer_of_bytes_is_taken_for_unwritten(arenas, number):
    made = CustomOperator(Definition("levels", "source", BYTES, "levels.py"))
    chosen, streams = made.workloads[0], Streams(b"", number)
    given = made.make_inputs(chosen, streams.next_call())
    block = Block(made, chosen, arenas, streams)
    call = block.place(given)
    call.outputs["level"].tensor.copy_(torch.arange(3000) % 256)
    with pytest.raises(Rejection, match="unwritten"):
        block.reject_if_unwritten()
    call.outputs["is_big"].tensor.copy_(given.x > 0)
    block.reject_if_unwritten()
