"""The C++ edits: what they do to a program compiles, computes the same thing, and is valid everywhere."""

from __future__ import annotations

import asyncio
from pathlib import Path

import cpp_programs
import numpy as np
import pytest

from kevolve.languages.cpp.edits import EDITS, Source, finish, tag
from kevolve.languages.cpp.edits.numeric import POLYNOMIAL_EXP
from kevolve.program import Program
from kevolve.propose.genetic import Genetic
from kevolve.propose.proposer import Context, Kind, Proposal, Request

TOLERANCE = {"float": 4e-6, "bfloat16": 1.2e-2}


def first_values(name: str) -> dict[str, int | str | bool]:
    edit = EDITS[name]
    return {key: edit.first.get(key, domain)[0] for key, domain in edit.domains.items()}


def apply(text: str, name: str, site: str, **values: int | str | bool) -> str | None:
    return EDITS[name].apply(Source(text), site, {**first_values(name), **values})


def applications(text: str, name: str, most: int = 9) -> list[str]:
    """The program after the edit, once for every site that takes it (or the `most` sites with most loops inside)."""
    source = Source(tag(text))
    sites = sorted(EDITS[name].candidates(source), key=source.importance, reverse=True)
    results = [result for site in sites if (result := apply(tag(text), name, site)) is not None]
    return [finish(result) for result in results[:most]]


def descendants(operator: str, count: int) -> list[str]:
    """Programs with many edits: drafts, and children of children."""
    start = Program(operator, "cpp", cpp_programs.PROGRAMS[operator])
    pool: list[Program] = []
    for seed in range(count):
        parents = pool[-2:] if seed % 4 == 3 else pool[-1:] if seed % 4 == 1 else []
        kind: Kind = "crossover" if len(parents) == 2 else "improve" if parents else "draft"
        request = Request(kind, tuple(parent.id for parent in parents), seed)
        context = Context(operator, "cpu", tuple((parent, None) for parent in parents), (start,))
        found = asyncio.run(Genetic().propose(request, context))
        pool += [found.program] if isinstance(found, Proposal) else []
    assert len(pool) > count // 2
    return [program.source for program in pool]


def programs_of(operator: str) -> dict[str, str]:
    """Every edit of a program by itself, and programs with many edits at once."""
    found = {}
    for name in EDITS:
        for number, result in enumerate(applications(cpp_programs.PROGRAMS[operator], name, most=2)):
            found[f"{name} {number}"] = result
    for number, result in enumerate(descendants(operator, 8 if operator.startswith("jagged") else 4)):
        found[f"descendant {number}"] = result
    return found


@pytest.mark.parametrize("operator", cpp_programs.PROGRAMS)
def test_every_edit_compiles_and_keeps_the_answer_in_float_and_bfloat16(operator: str, tmp_path: Path) -> None:
    programs = programs_of(operator)
    library = cpp_programs.build(operator, list(programs.values()), tmp_path)
    wrong = [
        (name, kind, one.values.shape, error)
        for number, name in enumerate(programs)
        for kind in TOLERANCE
        for one in cpp_programs.CASES
        if not (error := cpp_programs.error(library, operator, number, kind, one)) < TOLERANCE[kind]
    ]
    assert wrong == []


def test_every_edit_applies_to_one_of_the_starting_programs() -> None:
    texts = [cpp_programs.PROGRAMS[name] for name in ("jagged_sum", "jagged_softmax", "gram")]
    missing = {name for name in EDITS if not any(applications(text, name) for text in texts)}
    assert missing <= {"fuse"}


def test_a_tiled_program_reads_rows_in_order_and_its_inner_loop_is_outside_the_lanes() -> None:
    tagged = apply(tag(cpp_programs.PROGRAMS["jagged_sum"]), "lane_tile", "L1", width=16)
    assert tagged is not None
    lines = [line.strip() for line in finish(tagged).split("\n")]
    walk = lines.index("for (int64_t t = start; t < end; t++) {")
    assert lines[walk + 1 : walk + 4] == [
        "#pragma omp simd",
        "for (int lane = 0; lane < 16; lane++) {",
        "sum[lane] += values[t * dim + d + lane];",
    ]


def test_jammed_rows_share_the_loops_inside_and_load_what_they_have_in_common_once() -> None:
    tagged = apply(tag(cpp_programs.PROGRAMS["gram"]), "jam", "L0", rows=2)
    assert tagged is not None
    lines = [line.strip() for line in finish(tagged).split("\n")]
    walk = lines.index("for (int64_t k = 0; k < dim; k++) {")
    assert lines[walk + 1 : walk + 4] == [
        "sum += values[t * dim + k] * values[j * dim + k];",
        "sum_row1 += values[t_plus1 * dim + k] * values[j * dim + k];",
        "}",
    ]
    assert "for (int64_t t = t_full; t < total; t++) {" in lines


def test_rows_are_not_jammed_where_each_has_a_loop_of_its_own_length() -> None:
    own_length = "float s = 0; for (long k = 0; k < i; k++) { s += x[k]; } y[i] = s;"
    assert apply(tag(over_n(own_length)), "jam", "L0") is None
    assert apply(tag(over_n(own_length.replace("k < i", "k < n"))), "jam", "L0") is not None


def test_rows_that_have_no_load_in_common_are_not_jammed() -> None:
    assert apply(tag(cpp_programs.PROGRAMS["jagged_sum"]), "jam", "L1") is None


def test_a_tiled_product_that_is_jammed_can_still_be_shared_out_over_threads() -> None:
    text = tag(cpp_programs.plain("jagged_dense_bmm"))
    for name, site in (("lane_tile", "L3"), ("jam", "L2"), ("parallel", "L1")):
        after = apply(text, name, site)
        assert after is not None, name
        text = after


def test_rows_that_lie_side_by_side_on_both_sides_are_copied_as_one_block_and_segments_still_run_in_parallel() -> None:
    text = tag(cpp_programs.PROGRAMS["copies"])
    for name, site in (("block_copy", "L2"), ("block_copy", "L4"), ("parallel", "L1")):
        after = apply(text, name, site)
        assert after is not None, (name, site)
        text = after
    lines = [line.strip() for line in finish(text).split("\n")]
    size = "static_cast<size_t>({}) * sizeof(*out)"
    place = "out[(start + t) * dim + d]"
    whole = f"std::memcpy(&{place}, &{place.replace('out', 'values')}, {size.format('rows * dim')});"
    assert lines[lines.index("const int64_t d = 0;") + 1] == whole
    assert f"std::memset(&{place}, 0, {size.format('(length - rows) * dim')});" in lines


def test_zeros_are_stored_only_in_the_gaps_also_where_rows_are_counted_from_the_start_of_their_segment() -> None:
    filled = apply(tag(cpp_programs.plain("dense_to_jagged")), "fill_gaps", "L0")
    assert filled is not None
    assert "row_first = (start + 0) * dim, row_end = (start + rows) * dim;" in filled


def test_streamed_blocks_hold_what_was_copied_at_every_alignment_and_size_and_touch_nothing_else(
    tmp_path: Path,
) -> None:
    text = """#include "kevolve.h"
extern "C" void many(const VALUE *values, VALUE *out, int64_t count, int64_t zeros) {
    stream_copy(out, values, count);
    stream_zero(out + count, zeros);
}
"""
    library = cpp_programs.build("many", [text], tmp_path)
    values, size = np.arange(1, 201, dtype=np.uint16), cpp_programs.size
    for start in range(33):
        for count, zeros in ((0, 0), (1, 0), (31, 33), (32, 1), (95, 64), (97, 100)):
            out = np.full(300, 7, dtype=np.uint16)
            part = out[start:]
            library.many_bfloat16_0(*map(cpp_programs.pointer, (values[3:], part)), size(count), size(zeros))
            expected = np.full(300, 7, dtype=np.uint16)
            expected[start : start + count + zeros] = np.append(values[3 : 3 + count], np.zeros(zeros, np.uint16))
            np.testing.assert_array_equal(out, expected)


def test_a_streamed_copy_is_right_in_parallel(tmp_path: Path) -> None:
    text = tag(cpp_programs.PROGRAMS["copies"])
    for site in ("L0", "L2", "L4", "L6"):
        text = apply(text, "block_copy", site, store="streamed") or ""
    text = apply(text, "parallel", "L1") or ""
    assert finish(text).count("stream_zero(") == 3
    library = cpp_programs.build("copies", [finish(text)], tmp_path)
    for one in cpp_programs.CASES:
        assert cpp_programs.error(library, "copies", 0, "float", one) == 0.0


def test_what_is_no_copy_of_neighbouring_elements_between_two_arguments_stays_a_loop() -> None:
    moved, strided, backwards = "x[i] = x[i + 1];", "y[i] = x[2 * i];", "y[n - i] = x[n - i];"
    summed, twice, gathered = "y[i] = x[i] + 1;", "y[i + i] = x[i];", "y[i] = x[static_cast<long>(x[i]) + i];"
    padded = "for (long d = 0; d < m; d++) { y[i * n + d] = x[i * n + d]; }"
    for body in (moved, strided, backwards, summed, twice, gathered, padded):
        assert apply(tag(over_n(body)), "block_copy", "L0") is None, body
    assert apply(tag(over_n(padded)), "block_copy", "L1") is not None


def test_loops_keep_their_names_through_later_edits() -> None:
    text = tag(cpp_programs.PROGRAMS["jagged_softmax"])
    for name, site in (("accumulate", "L3"), ("lane_tile", "L2"), ("unroll", "L3"), ("parallel", "L1")):
        after = apply(text, name, site)
        assert after is not None, name
        text = after
    assert [Source(text).loop(site) is not None for site in ("L1", "L2", "L3", "L4", "L5")] == [True] * 5


def over_n(*bodies: str) -> str:
    loops = " ".join(f"for (long i = 0; i < n; i++) {{ {body} }}" for body in bodies)
    return f"void f(float *x, float *y, long n) {{ float s = 0; {loops} }}"


def test_a_loop_with_a_dependence_between_iterations_is_not_made_parallel_or_tiled() -> None:
    scan, fold = over_n("x[i] = x[i] + x[i - 1];"), over_n("s = s * 2 + x[i]; y[i] = s;")
    same, leave = over_n("y[0] = x[i];"), over_n("if (x[i] > 3) break; y[i] = x[i];")
    alias = over_n("float *z = y; z[0] = x[i];")
    for text in (scan, fold, same, leave, alias):
        for name in ("parallel", "lane_tile", "simd", "ivdep", "interchange", "accumulate", "jam"):
            assert apply(tag(text), name, "L0") is None, (name, text)


def test_loops_over_rows_are_made_parallel_though_a_row_is_written_and_read_at_different_columns() -> None:
    fill = "for (long j = 0; j < m; j++) { y[i * m + j] = 1; }"
    same_row = fill + " for (long k = 0; k < m; k++) { z[i] = y[i * m + k]; }"
    row_before = fill + " for (long k = 0; k < m; k++) { z[i] = y[i * m - m + k]; }"
    assert apply(tag(over_n(same_row)), "parallel", "L0") is not None
    assert apply(tag(over_n(row_before)), "parallel", "L0") is None


def test_neighbouring_loops_over_one_range_are_fused_only_if_the_second_does_not_need_the_first() -> None:
    fused = apply(tag(over_n("x[i] = 1;", "y[i] = x[i];")), "fuse", "L0")
    assert fused is not None
    assert finish(fused).count("for (") == 1
    assert apply(tag(over_n("s += x[i];", "y[i] = s;")), "fuse", "L0") is None
    assert apply(tag(over_n("x[i] = 1;", "y[i] = x[i + 1];")), "fuse", "L0") is None


def test_names_and_braces_leave_no_trace_in_a_finished_program() -> None:
    for text in cpp_programs.PROGRAMS.values():
        assert "/*@" not in finish(tag(text))
    assert finish(tag(cpp_programs.PROGRAMS["jagged_softmax"])) == cpp_programs.PROGRAMS["jagged_softmax"]


def test_text_that_is_not_ascii_survives_edits() -> None:
    text = "// Σ größer\n" + cpp_programs.PROGRAMS["jagged_sum"].replace("sum of", "Σ of")
    tagged = apply(tag(text), "lane_tile", "L1")
    assert tagged is not None
    assert "// Σ größer" in finish(tagged)
    assert not Source(tagged).broken


def polynomial_exp(values: np.ndarray, folder: Path) -> np.ndarray:
    text = f"""#include "kevolve.h"
{POLYNOMIAL_EXP}
extern "C" void many(const float *values, float *out, int64_t count) {{
    #pragma omp simd
    for (int64_t i = 0; i < count; i++) {{ out[i] = polynomial_exp(values[i]); }}
}}
"""
    out = np.empty_like(values)
    library = cpp_programs.build("many", [text], folder)
    library.many_float_0(cpp_programs.pointer(values), cpp_programs.pointer(out), cpp_programs.size(len(values)))
    return out


def test_the_polynomial_exponential_is_within_two_ulp_and_right_at_the_edges(tmp_path: Path) -> None:
    inf, nan = np.inf, np.nan
    edges = [0.0, -0.0, inf, -inf, nan, 88.72283, 88.72284, 89.0, 1e30, -87.33655, -103.9721, -104.0, -1e30, 1e-40]
    values = np.concatenate([edges, np.linspace(-105, 89.5, 1_000_003)]).astype(np.float32)
    out = polynomial_exp(values, tmp_path)
    with np.errstate(over="ignore", invalid="ignore"):
        exact = np.exp(values.astype(np.float64))
        nearest = exact.astype(np.float32)
    assert np.array_equal(np.isnan(out), np.isnan(values))
    assert np.array_equal(np.isinf(out), np.isinf(nearest))
    finite = np.isfinite(nearest)
    ulp = np.spacing(np.abs(nearest[finite]))  # the spacing of denormals where the result is one
    assert (np.abs(out[finite] - exact[finite]) / ulp).max() <= 2.0


def test_special_values_come_out_of_softmax_edits_as_out_of_the_plain_program(tmp_path: Path) -> None:
    plain = cpp_programs.PROGRAMS["jagged_softmax"]
    names = ("online_maximum", "polynomial_exp", "store_reuse", "accumulate", "lane_tile")
    texts = [plain, *(text for name in names for text in applications(plain, name, most=2))]
    library = cpp_programs.build("jagged_softmax", texts, tmp_path)
    for special in (np.nan, np.inf, -np.inf):
        one = cpp_programs.case([4, 6, 1], dim=21, max_length=5, seed=5)
        one.values[0, :7] = special
        one.values[5, 7:14] = special
        one.values[4:9, 20] = special
        answers = [cpp_programs.answer(library, "jagged_softmax", number, one) for number in range(len(texts))]
        for got in answers[1:]:
            np.testing.assert_allclose(got, answers[0], rtol=2e-6, atol=1e-30)
