"""Programs of different kinds are told apart, and those of one kind are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from search_stubs import LOCAL, StubLease, StubProposer, config

from kevolve.paths import seeds_dir
from kevolve.program import Program
from kevolve.propose.proposer import Context, Proposal, Refusal, Request
from kevolve.search.behaviour import likeness, niche_of
from kevolve.search.evolution import evolve
from kevolve.verdict import Fitness, Measurement, Rejected, Scored

PLAIN = (seeds_dir() / "jagged_softmax" / "plain.cpp").read_text()


def scored(us: float = 100.0, floor_us: float = 20.0) -> Scored:
    measurement = Measurement("main", "search", 1.0, "eager", 10.0, us, 10 / us, (0.1, 0.1), floor_us)
    return Scored(Fitness.of([measurement]), (measurement,))


def test_what_a_program_waits_for_is_measured() -> None:
    assert niche_of("cpp", PLAIN, scored()).startswith("bound=compute ")
    assert niche_of("cpp", PLAIN, scored(floor_us=80.0)).startswith("bound=memory ")
    assert niche_of("cpp", PLAIN, scored(us=3.0, floor_us=0.1)).startswith("bound=launch ")
    assert niche_of("cpp", PLAIN, Rejected("build", "no")) == ""


def test_threads_passes_and_blocks_are_read_from_cpp() -> None:
    assert "parallel=none passes=4 block=1" in niche_of("cpp", PLAIN, scored())
    pragma = "#pragma omp parallel for schedule(static)"
    rows = PLAIN.replace("    for (int64_t b = 0", f"    {pragma}\n    for (int64_t b = 0")
    assert "parallel=rows passes=4" in niche_of("cpp", rows, scored())
    collapsed = rows.replace("schedule(static)", "collapse(2)")
    assert "parallel=collapse" in niche_of("cpp", collapsed, scored())
    blocked = PLAIN.replace("float largest = -INFINITY;", "float largest = -INFINITY; float kept[4][20];")
    assert "block=64" in niche_of("cpp", blocked, scored())
    other = PLAIN.replace("largest", "greatest")
    assert niche_of("cpp", other, scored()) == niche_of("cpp", PLAIN, scored())


def test_axes_loops_and_blocks_are_read_from_triton() -> None:
    text = (seeds_dir() / "jagged_softmax" / "plain.py").read_text()
    assert "parallel=2 axes passes=4 block=4096" in niche_of("triton", text, scored())


@pytest.mark.parametrize("text", ["", "@@ not c++ at all {{{", "for (;;)"])
def test_a_text_that_is_no_program_has_a_niche_and_no_traceback(text: str, tmp_path: Path) -> None:
    assert niche_of("cpp", text, scored()).startswith("bound=")
    assert niche_of("triton", text, scored()).startswith("bound=")
    assert niche_of("unheard-of", text, scored()) == "bound=compute"


def test_comments_layout_and_names_make_no_other_program_and_anything_else_does() -> None:
    like = likeness("cpp", PLAIN)
    assert like == likeness("cpp", PLAIN.replace("    ", "\t").replace("//", "// as everybody knows,"))
    assert like == likeness("cpp", PLAIN.replace("largest", "greatest").replace("value ", "one "))
    assert like != likeness("cpp", PLAIN.replace("0.0f", "1.0f", 1))
    assert like != likeness("cpp", PLAIN.replace("expf", "exp2f"))
    assert like != likeness("cpp", PLAIN.replace("largest", "sum", 1)), "two names have become one"
    assert like != likeness("cpp", PLAIN.replace("for (int64_t b", "#pragma omp parallel for\n    for (int64_t b"))
    text = (seeds_dir() / "jagged_softmax" / "plain.py").read_text()
    assert likeness("triton", text) == likeness("triton", text.replace("ROWS = 32\n", "ROWS = 32  # enough\n\n"))
    assert likeness("triton", text) != likeness("triton", text.replace("ROWS = 32", "ROWS = 64"))


def test_a_name_that_also_stands_for_something_global_is_kept() -> None:
    def program(name: str) -> str:
        return f"float f(float x) {{ float {name} = x; return {name}; }} float g(float x) {{ return {name}(x); }}"

    assert likeness("cpp", program("expf")) != likeness("cpp", program("sinf"))
    shadow = "float f(float x) {{ return x; }} float g() {{ return {0}; }} float h(float {0}) {{ return {0}; }}"
    assert likeness("cpp", shadow.format("one")) != likeness("cpp", shadow.format("two"))


def test_a_program_that_differs_in_names_alone_never_takes_device_time_again(tmp_path: Path) -> None:
    class Renaming(StubProposer):
        async def propose(self, request: Request, context: Context) -> Proposal | Refusal:
            text = PLAIN.replace("largest", f"largest{request.seed % 1000}").replace("b < batch", "b < batch + 0")
            return Proposal(Program(context.operator, "cpp", text, (context.seeds[0].id,)))

    lease = StubLease(script=lambda program: scored())
    run = config(tmp_path, evaluations=5)
    summary = evolve(run, leases=[lease], proposer=Renaming(), workers=LOCAL)
    assert summary.judged == 2, "the plain program and one of the others"
    assert summary.reused >= 5
    assert len(lease.prepared) <= 4, "not even built; two were, and the winner again to be confirmed"
