"""Whatever a program does, the judge gives the right verdict with a reason, leaves no orphan, and judges on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kevolve.judge.judge import Judge
from kevolve.judge.lease import Survey
from kevolve.verdict import Rejected, Scored, Verdict
from tests.judge.programs import RIGHT, program

Judged = Callable[[str], Verdict]


def rejected(verdict: Verdict, stage: str, *words: str) -> Rejected:
    assert isinstance(verdict, Rejected), verdict
    assert verdict.stage == stage, verdict
    for word in words:
        assert word in verdict.reason, verdict
    return verdict


def test_a_program_that_does_not_compile_hears_the_compilers_first_error(verdict_on: Judged) -> None:
    verdict = rejected(verdict_on(program("    out[0] = undeclared;\n")), "build", "jagged_sum.cpp:", "undeclared")
    assert "error:" in verdict.detail


def test_a_segfault_names_the_signal_and_the_workload(verdict_on: Judged) -> None:
    rejected(verdict_on(program("    *(volatile int *)8 = 1;\n")), "correctness", "SIGSEGV", " on ")


def test_a_write_to_an_input_never_succeeds(verdict_on: Judged) -> None:
    verdict_source = program(RIGHT + "    if (total) ((VALUE *)values)[0] = 1.0f;\n")
    rejected(verdict_on(verdict_source), "correctness", "SIGSEGV")


def test_an_endless_loop_is_ended_and_named(verdict_on: Judged) -> None:
    rejected(verdict_on(program("    for (volatile int64_t i = 0;; i = i + 1) {}\n")), "correctness", "did not finish")


def test_allocating_without_end_hits_the_limit(verdict_on: Judged) -> None:
    body = "    for (;;) { char *p = (char *)malloc(1 << 26); memset(p, 1, 1 << 26); if (dim) out[0] = p[5]; }\n"
    rejected(verdict_on(program(body, "#include <cstdlib>\n")), "correctness", "memory")


def test_wrong_values_name_the_element_expected_and_got(verdict_on: Judged) -> None:
    wrong = RIGHT.replace("out[b * dim + d] = sum", "out[b * dim + d] = sum + (b == 1)")
    verdict = rejected(verdict_on(program(wrong)), "correctness", "wrong on")
    assert "expected" in verdict.detail


def test_nan_is_never_right(verdict_on: Judged) -> None:
    rejected(
        verdict_on(program("    for (int64_t i = 0; i < batch * dim; i++) out[i] = NAN;\n")), "correctness", "wrong on"
    )


def test_output_left_unwritten_is_never_right(verdict_on: Judged) -> None:
    rejected(verdict_on(program("    (void)out;\n")), "correctness", "wrong on")


def test_writing_beside_the_output_is_seen(verdict_on: Judged) -> None:
    body = RIGHT + "    if (batch * dim) out[-1] = 0.0f;\n"
    rejected(verdict_on(program(body)), "correctness", "writes outside out")


def test_right_answers_for_search_workloads_only_are_not_enough(verdict_on: Judged) -> None:
    special = "    if (dim != 128 && dim != 32 && dim != 64) return;\n"
    rejected(verdict_on(program(special + RIGHT)), "correctness", "wrong on", "adversarial")


@pytest.mark.parametrize(
    ("call", "header"),
    [
        ("fork()", 'extern "C" int fork();\n'),
        ('system("true")', "#include <cstdlib>\n"),
        ("exit(0)", "#include <cstdlib>\n"),
        ("socket(2, 1, 0)", 'extern "C" int socket(int, int, int);\n'),
        ('fopen("x", "w")', 'extern "C" void *fopen(const char *, const char *);\n'),
        ('puts("hello")', 'extern "C" int puts(const char *);\n'),
        ("dlopen(0, 1)", 'extern "C" void *dlopen(const char *, int);\n'),
    ],
)
def test_library_calls_beyond_arithmetic_are_named_before_anything_runs(
    verdict_on: Judged, call: str, header: str
) -> None:
    verdict = verdict_on(program(f"    {call};\n" + RIGHT, header))
    rejected(verdict, "build", call.split("(")[0])


def test_includes_outside_the_list_are_refused(verdict_on: Judged) -> None:
    rejected(verdict_on('#include "/etc/passwd"\n' + program(RIGHT)), "screen", "/etc/passwd")
    rejected(verdict_on("#include <fstream>\n" + program(RIGHT)), "screen", "fstream")


def test_a_missing_entry_point_is_named(verdict_on: Judged) -> None:
    rejected(verdict_on("int other() { return 0; }\n"), "screen", 'extern "C" void jagged_sum')


def test_the_judge_still_works_after_all_of_that(verdict_on: Judged, plain: str, judge: Judge, survey: Survey) -> None:
    assert isinstance(verdict_on(plain), Scored)
    server = judge.servers["cpp"]
    assert server.child is None
    assert server.alive()


def test_memory_behind_an_output_cannot_be_borrowed_even_if_it_is_given_back(verdict_on: Judged) -> None:
    borrow = """
    volatile char *behind = (volatile char *)(out + batch * dim);
    char kept = *behind;
    *behind = (char)total;
    *behind = kept;
"""
    rejected(verdict_on(program(RIGHT + borrow)), "correctness", "past the end")
