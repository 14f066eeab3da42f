"""A launching function sees stand-ins, and what it launches is specialised as Triton itself would."""

from __future__ import annotations

import pytest

from kevolve.languages.triton.host import DTYPES, Host, LaunchError, Tensor

SOURCE = """
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, scratch, n, m: tl.int64, scale, BLOCK: tl.constexpr = 64):
    pass

def op(x, n, scale):
    scratch = torch.zeros((n, 2), dtype=torch.float32, device=x.device)
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, scratch, n, n, scale, num_warps=8)
"""


class Recorder:
    def __init__(self):
        self.launches, self.asked = [], []

    def launch(self, key, grid, values):
        self.launches.append((key, grid, values))

    def workspace(self, size, *, is_zero):
        self.asked.append((size, is_zero))
        return 1 << 20


def launched(*arguments, source: str = SOURCE):
    recorder = Recorder()
    Host(source, "op", recorder).entry(*arguments)
    return recorder


def floats(address: int = 4096) -> Tensor:
    return Tensor(address, (8, 4), DTYPES["float32"])


def test_types_alignment_and_constants_make_the_specialisation():
    ((key, grid, values),) = launched(floats(), 100, 2.5).launches
    assert key.arguments == (
        ("*fp32", True), ("*fp32", True), ("i32", False), ("i64", False), ("fp32", False), ("constexpr", 64, "int"),
    )  # fmt: skip
    assert key.options == (("num_warps", 8),)
    assert grid == (2, 1, 1)
    assert values == [4096, 1 << 20, 100, 100, 2.5]


def test_a_multiple_of_sixteen_a_one_and_a_big_number_are_specialised():
    assert launched(floats(), 32, 1.0).launches[0][0].arguments[2:4] == (("i32", True), ("i64", True))
    one, _, values = launched(floats(), 1, 1.0).launches[0]
    assert one.arguments[2] == ("constexpr", 1, "int")
    assert len(values) == 3
    assert launched(floats(), 1 << 31, 1.0).launches[0][0].arguments[2] == ("i64", True)


def test_a_misaligned_tensor_is_not_said_to_be_aligned():
    assert launched(floats(4100), 5, 1.0).launches[0][0].arguments[0] == ("*fp32", False)


def test_what_must_not_be_specialised_is_not():
    source = SOURCE.replace("@triton.jit", '@triton.jit(do_not_specialize=["n"])')
    assert launched(floats(), 16, 1.0, source=source).launches[0][0].arguments[2] == ("i32", False)
    assert launched(floats(), 1, 1.0, source=source).launches[0][0].arguments[2] == ("i32", False)


def test_an_empty_grid_launches_nothing():
    assert launched(floats(), 0, 1.0).launches == []


def test_workspace_is_asked_for_in_bytes():
    assert launched(floats(), 100, 1.0).asked == [(800, True)]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("(triton.cdiv(n, meta[\"BLOCK\"]),)", "(1, 70000)", "70000 blocks in y"),
        ("x, scratch, n, n, scale,", "x, scratch, n,", "without its argument m"),
        ("num_warps=8", "blocks=8", "no argument blocks"),
        ("(n, 2)", "(n, -2)", "workspace of shape"),
    ],
)  # fmt: skip
def test_a_launch_that_cannot_be_says_why(old, new, reason):
    assert old in SOURCE
    with pytest.raises(LaunchError, match=reason):
        launched(floats(), 100, 1.0, source=SOURCE.replace(old, new))


@pytest.mark.parametrize("text", ["open('/etc/passwd')", "__import__('os')", "print(1)"])
def test_python_itself_is_out_of_reach(text):
    source = SOURCE.replace("scale):\n", f"scale):\n    {text}\n")
    with pytest.raises((NameError, KeyError)):
        launched(floats(), 1, 1.0, source=source)
