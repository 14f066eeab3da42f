"""What launches a CUDA C++ program: launches follow from sizes as in C++, and everything else is refused."""

from __future__ import annotations

import pytest

from kevolve.languages.cuda.expressions import Refused
from kevolve.languages.cuda.host import Host, LaunchError, Pointer
from kevolve.languages.cuda.screen import check
from kevolve.languages.cuda.translate import translated
from kevolve.paths import seeds_dir

HEAD = """#include "kevolve_cuda.h"
constexpr int THREADS = 256, WIDTH = 16 / sizeof(VALUE);
template <int N> __global__ void wide(const VALUE *values, float *sums, int count, float scale) {}
__global__ void plain(float *sums, bool is_even) {}
static int parts(int64_t rows) {
    if (rows > 1000) return 8;
    return rows > 100 ? 2 : 1;
}
extern "C" void jagged_sum(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim) {
"""


class Recorder:
    """Writes down what is asked for."""

    def __init__(self):
        self.asked, self.next = [], 1 << 40

    def launch(self, kernel, grid, block, shared_bytes, values):
        plain = [value.address if isinstance(value, Pointer) else value for value in values]
        self.asked.append((kernel, grid, block, shared_bytes, *plain))

    def workspace(self, size, *, is_zero):
        self.asked.append(("zeroed" if is_zero else "workspace", size))
        self.next += 4096
        return self.next

    def clear(self, address, size):
        self.asked.append(("zero", address, size))


def launched(body: str, batch: int = 20, total: int = 100, dim: int = 64, dtype: str = "float32", address: int = 4096):
    """What a launching function with this body asks for."""
    program = translated(HEAD + body + "}\n", "jagged_sum")
    host = Host(program.python, program.kernels, ["value", "index", "value"])
    recorder = Recorder()
    entry = host.entry(host.variant([dtype, "int64", dtype]), recorder)
    entry(Pointer(address, 4), Pointer(8192, 8), Pointer(1 << 20, 4), batch, total, dim)
    return recorder.asked


def test_the_grid_of_a_starting_program_follows_from_its_sizes():
    source = (seeds_dir() / "jagged_softmax" / "plain.cu").read_text()
    program = translated(source, "jagged_softmax")
    recorder = Recorder()
    entry = Host(program.python, program.kernels, ["value", "index", "value"]).entry("float32-int64", recorder)
    entry(Pointer(4096, 4), Pointer(8192, 8), Pointer(1 << 20, 4), 1024, 9000, 129, 50)
    ((kernel, grid, block, shared, *values),) = recorder.asked
    assert (kernel, grid, block, shared) == ("softmax_segment", (1025, 3, 1), (64, 4, 1), 0)
    assert values == [4096, 8192, 1 << 20, 1024, 9000, 129, 50]


def test_instances_pointers_numbers_and_shared_memory_reach_the_launch():
    body = """
    float *sums = workspace<float>(batch * dim * parts(total));
    wide<WIDTH><<<dim3(ceil_div(batch, THREADS), parts(total)), {32, 4}, THREADS * sizeof(float)>>>(
        values + 8, sums + dim, int(total), 1e-3f);
    """
    with pytest.raises(Exception, match="line 13"):  # a block in braces is no launch that C++ would take here either
        launched(body)
    (workspace, launch) = launched(body.replace("{32, 4}", "dim3(32, 4)"), total=5000)
    assert workspace == ("workspace", 20 * 64 * 8 * 4)
    expected = ("wide<WIDTH>", (1, 8, 1), (32, 4, 1), 1024, 4096 + 32, (1 << 40) + 4096 + 256, 5000, 1e-3)
    assert launch == expected


def test_a_grid_in_brackets_is_a_grid_whatever_it_reads_like():
    body = (
        "    dim3 grid(batch, ceil_div(dim, THREADS * 2), (total + 9) / 10);\n    plain<<<grid, 1>>>(nullptr, true);\n"
    )
    assert launched(body)[0][1] == (20, 1, 10)
    with pytest.raises(Refused, match="line 11: unknown is not known here"):
        launched("    dim3 grid(batch, ceil_div(unknown, 3));\n")


def test_arithmetic_is_that_of_c():
    body = "    plain<<<dim3(7 / 2, 010, 0x10), 1 + (-7 / 2) * -1>>>(nullptr, -7 % 3 == -1 && !(1 >> 1));\n"
    assert launched(body) == [("plain", (3, 8, 16), (4, 1, 1), 0, 0, True)]


def test_loops_branches_and_scopes_are_those_of_c():
    body = """
    int64_t left = batch;
    for (int i = 0; i < 5; i++) {
        if (i == 1) continue;
        if (left < 3) { break; } else left /= 2;
        plain<<<left, 32>>>((float *)out, i % 2 == 0);
    }
    for (int i = 3; i > 2; --i) plain<<<i, 32>>>(nullptr, false);
    while (left > 0) { left -= 1; }
    plain<<<left, 32>>>(nullptr, true);
    """
    found = [(launch[1][0], launch[5]) for launch in launched(body)]
    assert found == [(10, True), (5, True), (2, False), (3, False)]  # a grid of 0 blocks launches nothing


def test_a_branch_by_type_or_alignment_is_taken_for_the_variant_and_the_address():
    body = """
    if constexpr (sizeof(VALUE) == 2) { plain<<<2, 1>>>(nullptr, true); } else { plain<<<4, 1>>>(nullptr, true); }
    if (is_aligned(values, 16)) plain<<<WIDTH, 1>>>(nullptr, true);
    """
    assert [launch[1][0] for launch in launched(body)] == [4, 4]
    assert [launch[1][0] for launch in launched(body, dtype="bfloat16", address=4098)] == [2]


def test_memory_is_zeroed_in_the_order_of_the_launches():
    body = """
    auto *counts = zeroed_workspace<int>(3);
    zero(out, batch * dim);
    plain<<<1, 1>>>(reinterpret_cast<float *>(counts + 1), true);
    """
    assert launched(body) == [
        ("zeroed", 12), ("zero", 1 << 20, 20 * 64 * 4), ("plain", (1, 1, 1), (1, 1, 1), 0, (1 << 40) + 4096 + 4, True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("int64_t n = 3; for (int i = 0; i < 99; i++) n *= n;", "overflows"),
        ("plain<<<1, 1025>>>(nullptr, true);", "1025"),
        ("plain<<<-1, 1>>>(nullptr, true);", "-1 in x"),
        ("float *w = workspace<float>(0 - batch);", "-20 elements"),
    ],
)
def test_what_cannot_be_launched_is_an_error_of_the_program(body, reason):
    with pytest.raises(LaunchError, match=reason):
        launched(body)


REFUSED = {
    "    system(1);": "cannot be called here",
    '    asm("nop");': "has no effect that is allowed",
    "    static int calls = 0;": "nothing outlives a call",
    "    calls = 1;": "there is no variable calls",
    "    *out = 1.0f;": "plain variables only",
    "    out[0] = 1.0f;": "plain variables only",
    "    float first = values[0];": "is not allowed",
    "    float first = *values;": "is not allowed",
    "    auto f = [&](int n) { return n; };": "is not allowed",
    "    plain<<<1, 1, 0, 5>>>(nullptr, true);": "there is one stream",
    "    (&plain)<<<1, 1>>>(nullptr, true);": "by its name",
    "    int batch = 3;": "already",
    "    { int n = 3; } plain<<<n, 1>>>(nullptr, true);": "n is not known",
    "    struct Two { int a; };": "a function that launches has",
    "    char text[4];": "variables are numbers",
    "    goto end;": "a function that launches has",
    "    int n = __LINE__ + unknown;": "is not known here",
    "    std::min(1, 2);": "is not allowed",
    "    while (true) { switch (1) { default: break; } }": "a function that launches has",
    "    float *w = workspace<Unknown>(3);": "the size of Unknown is not known",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_is_no_launching_is_refused_with_its_line(body):
    reason = check(HEAD + body + "\n}\n", "jagged_sum")
    assert REFUSED[body] in reason
    assert reason.startswith("line 11: ")


def test_without_the_function_that_launches_there_is_no_program():
    assert 'no function extern "C" void jagged_sum' in check('#include "kevolve_cuda.h"\n', "jagged_sum")
    assert 'extern "C"' in check(HEAD.replace('extern "C" ', "") + "}\n", "jagged_sum")
    assert check(HEAD + "    plain<<<1, 1>>>(nullptr, true);\n}\n", "jagged_sum") == ""


def test_deep_nesting_and_noise_are_refused_not_an_error_of_the_judge():
    deep = f"    int n = {'(' * 5000}1{')' * 5000};\n"
    assert "deeply" in check(f"{HEAD}{deep}}}\n", "jagged_sum")
    assert check(HEAD + "    if (((;\n}\n", "jagged_sum")
    assert check("\x00\xff{{{", "jagged_sum")


def test_the_compiler_sees_launches_as_calls_at_the_same_lines():
    source = HEAD + "    plain<<<1,\n            2>>>(nullptr, true);\n}\n"
    checked = translated(source, "jagged_sum").checked
    assert "kevolve_launch(plain, 1,\n            2)(nullptr, true);" in checked
    assert checked.count("\n") == source.count("\n")
    assert "<<<" not in checked
