"""A verdict becomes concerns that documents can be found by."""

from __future__ import annotations

from typing import Any

import pytest

from kevolve.knowledge.vocabulary import CONCERNS
from kevolve.propose.diagnosis import diagnose
from kevolve.verdict import Fault, Fitness, Measurement, Rejected, Scored, Verdict


def scored(*times: tuple[float, float], **profile: Any) -> Scored:
    """Programs that take (us) where the copy rate allows (us), against a baseline of 100 us."""
    measurements = [
        Measurement(f"w{n}", "search", 1.0, "eager", 100.0, us, 100 / us, (100 / us, 100 / us), floor)
        for n, (us, floor) in enumerate(times)
    ]
    return Scored(Fitness.of(measurements), tuple(measurements), profile)


CASES: list[tuple[Verdict, tuple[str, ...]]] = [
    (Rejected("screen", "inline assembly is not allowed"), ("screen_rejected",)),
    (Rejected("build", "does not compile: x.cpp:3: error: 'y' was not declared"), ("compile_error",)),
    (Rejected("build", "the program uses fopen: a program may only compute, allocate"), ("screen_rejected",)),
    (Rejected("build", "the compiler took too long"), ("compile_error", "timeout")),
    (Rejected("correctness", "wrong on main (search): out is NaN where a number belongs"),
     ("wrong_values", "nan_or_infinity")),
    (Rejected("correctness", "wrong on a (search): out is further from the reference than rounding explains",
              "out[0, 1]: expected 1.5, got 1.50002, allowed error 2e-06; 3 of 10 elements are wrong"),
     ("precision", "wrong_values")),
    (Rejected("correctness", "wrong on a (search): out is further from the reference than rounding explains",
              "out[0, 1]: expected 1.5, got 7, allowed error 2e-06; 3 of 10 elements are wrong"), ("wrong_values",)),
    (Rejected("correctness", "writes outside out on odd"), ("out_of_bounds",)),
    (Rejected("correctness", "was ended by SIGSEGV (Segmentation fault) on main"), ("out_of_bounds", "crash")),
    (Rejected("correctness", "did not finish within 5 s on main"), ("timeout",)),
    (Rejected("timing", "leaves outputs unwritten on main in a timed call"), ("nondeterministic",)),
    (scored((50, 45)), ("memory_bound",)),
    (scored((50, 5), diagnosis="1.0 of 8 cores at work. Parallelism bounds it: most cores stand idle."),
     ("load_imbalance", "compute_bound")),
    (scored((9, 1)), ("launch_bound",)),
    (scored((500, 50), (120, 80)), ("load_imbalance", "compute_bound", "slow_than_baseline")),
    (scored((50, 5), local_bytes=64), ("spills", "compute_bound")),
    (Fault("device", "it burns"), ()),
]  # fmt: skip


@pytest.mark.parametrize(("verdict", "concerns"), CASES)
def test_the_concerns_of_a_verdict(verdict: Verdict, concerns: tuple[str, ...]) -> None:
    found = diagnose(verdict)
    assert found.concerns == concerns
    assert set(concerns) <= set(CONCERNS)


def test_the_compilers_lines_and_the_first_wrong_element_are_passed_on() -> None:
    found = diagnose(Rejected("build", "does not compile: no `total`", "x.cpp:3:5: error: no `total`\n  total();"))
    assert "x.cpp:3:5" in found.paragraph
    assert "total" in found.words.split()
