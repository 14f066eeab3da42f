"""CUDA C++ programs are built for a GPU that is not here: every variant, with what it takes or what is wrong."""

from __future__ import annotations

import re

import pytest
from cuda_programs import SEEDS, SUM, Contents, built, needs_nvrtc

from kevolve.languages.language import Built
from kevolve.operators.registry import load_operator
from kevolve.paths import seeds_dir
from kevolve.verdict import Rejected

needs_nvrtc()

HALF = "    if (batch > 200) {\n        sum_segment<<<grid, block>>>(values, offsets, out, dim);\n    }\n"


@pytest.mark.parametrize("operator", SEEDS)
def test_a_starting_program_is_built_for_every_dtype_and_index_type(operator, monkeypatch):
    program = built((seeds_dir() / operator / "plain.cu").read_text(), monkeypatch, operator=operator)
    assert isinstance(program, Built), program
    contents = Contents.of(program)
    workloads = load_operator(operator, "cuda").workloads
    assert set(contents.cubins) == {f"{w.dtype}-{w.index_dtype}" for w in workloads}
    assert {"float32-int64", "bfloat16-int32", "float16-int32"} <= set(contents.cubins)
    for variant, kernels in contents.about["variants"].items():
        assert contents.cubins[variant].startswith(b"\x7fELF")
        for kernel in kernels.values():
            assert 16 <= kernel["registers"] <= 128
            assert kernel["kinds"][:3] == ["u64"] * 3


@pytest.mark.parametrize("path", sorted(seeds_dir().glob("*/tuned.cu")), ids=lambda path: path.parent.name)
def test_a_tuned_program_is_built_without_spills(path, monkeypatch):
    program = built(path.read_text(), monkeypatch, "main", "main_bfloat16", "main_float16", operator=path.parent.name)
    assert isinstance(program, Built), program
    assert int(program.facts["local_bytes"]) <= 32


def test_resources_are_those_of_the_artefact(monkeypatch):
    program = built(SUM, monkeypatch, "main")
    assert isinstance(program, Built), program
    kernel = Contents.of(program).about["variants"]["float32-int64"]["sum_segment"]
    assert kernel["shared_bytes"] == 64 * 4 * 4  # of sums[ROWS][COLUMNS], what the driver reserves left out
    assert kernel["most_threads"] == 256
    assert program.facts["shared_bytes"] == "1024"
    assert program.facts["specialisations"] == "1"


def test_programs_that_do_the_same_are_one_artefact(monkeypatch):
    first = built(SUM, monkeypatch, "main")
    again = built(re.sub(r"\bsum\b", "total", SUM.replace("// out", "\n// Out")), monkeypatch, "main")
    host = built(re.sub(r"\bblock\b", "threads", SUM), monkeypatch, "main")
    tiles = built(SUM.replace("ROWS = 4", "ROWS = 8"), monkeypatch, "main")
    launch = built(SUM.replace("dim3 grid(batch,", "dim3 grid(batch + 0,"), monkeypatch, "main")
    assert all(isinstance(program, Built) for program in (first, again, host, tiles, launch))
    assert first.artefact == again.artefact == host.artefact
    assert len({first.artefact, tiles.artefact, launch.artefact}) == 3


def test_a_kernel_that_no_workload_launches_is_built_all_the_same(monkeypatch):
    program = built(
        SUM.replace("    sum_segment<<<grid, block>>>(values, offsets, out, dim);\n", HALF), monkeypatch, "d1"
    )
    assert isinstance(program, Built), program
    assert "sum_segment" in Contents.of(program).about["variants"]["float32-int64"]


def test_an_instance_is_left_out_where_its_types_are_not(monkeypatch):
    halves = """template <typename T> __global__ void halved(T *out) {
    static_assert(sizeof(T) == 2, "halves only");
    out[threadIdx.x] = 0.0f;
}

extern "C" void"""
    source = SUM.replace('extern "C" void', halves).replace(
        "    sum_segment<<<", "    if constexpr (sizeof(VALUE) == 2) halved<VALUE><<<1, 1>>>(out);\n    sum_segment<<<"
    )
    program = built(source, monkeypatch, "main", "main_bfloat16")
    assert isinstance(program, Built), program
    variants = Contents.of(program).about["variants"]
    assert "halved<VALUE>" in variants["bfloat16-int32"]
    assert "halved<VALUE>" not in variants["float32-int64"]


TYPES = "line 33: a kernel that takes (const float *, const int64_t *, float *, int64_t)"

# what is changed in the plain sum, and a part of the reason for which it must be refused
BAD = {
    "an error": ("float sum = 0.0f;", "float sum = nought;", "line 13: identifier"),
    "an error of types where it is launched": ("(values, offsets, out, dim);", "(offsets, values, out, dim);", TYPES),
    "a missing argument": (
        "(values, offsets, out, dim);",
        "(values, offsets, out);",
        "is launched with other arguments",
    ),
    "an output that is not to be written": (
        "<<<grid, block>>>(values, offsets, out",
        "<<<grid, block>>>(values, offsets, values",
        TYPES,
    ),
    "more dynamic shared memory than there is": (
        "grid, block>>>",
        "grid, block, 240000>>>",
        "bytes of shared memory",
    ),
    "more threads than it is bounded to": (
        "__launch_bounds__(COLUMNS * ROWS)",
        "__launch_bounds__(64)",
        "bounded to 64",
    ),
    "more threads than there can be": ("dim3 block(COLUMNS, ROWS)", "dim3 block(2048)", "2048"),
    "a grid that cannot be": ("dim3 grid(batch, ", "dim3 grid(batch, 70000 + ", "0 to 65535"),
    "a structure as a parameter": (
        "VALUE *out, int64_t dim) {\n    __sh",
        "VALUE *out, float4 dims) {\n    int64_t dim = dims.x;\n    __sh",
        "float4",
    ),
    "an argument too few": (
        "int64_t batch, int64_t total, int64_t dim) {\n    dim3",
        "int64_t batch, int64_t dim) {\n    dim3",
        "takes 6 arguments",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_program_is_refused_with_a_reason(what, monkeypatch):
    old, new, reason = BAD[what]
    assert old in SUM
    refused = built(SUM.replace(old, new), monkeypatch, "main")
    assert isinstance(refused, Rejected), refused
    assert refused.stage == "build"
    assert reason in refused.reason + refused.detail


def test_a_variable_is_refused_only_where_it_is_used(monkeypatch):
    unused = SUM.replace("constexpr int ROWS", "__device__ int kept;\nconstexpr int ROWS")
    assert isinstance(built(unused, monkeypatch, "main"), Built)
    refused = built(unused.replace("float sum = 0.0f;", "float sum = kept++;"), monkeypatch, "main")
    assert isinstance(refused, Rejected)
    assert "kept keeps its value between calls" in refused.reason


def test_the_compilers_own_tables_are_no_state_unless_a_program_could_name_them(monkeypatch):
    with_sine = SUM.replace("float sum = 0.0f;", "float sum = sinf(float(dim) * 1.0e9f) * 0.0f;")
    assert isinstance(built(with_sine, monkeypatch, "main"), Built)
    named = with_sine.replace("constexpr int ROWS", "#define PASTED(a, b) a##b\nconstexpr int ROWS")
    verdict = built(named, monkeypatch, "main")
    assert isinstance(verdict, Built) or "keeps its value" in verdict.reason  # where the table is in constant memory
