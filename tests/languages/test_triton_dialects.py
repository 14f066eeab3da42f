"""What a device's Triton lacks is refused before anything is built, with what to use instead."""

from __future__ import annotations

import pytest

from kevolve.judge.screen import screen
from kevolve.languages.triton import host
from kevolve.languages.triton.dialects import DIALECTS, foreign
from kevolve.operators.registry import operator_names
from kevolve.paths import seeds_dir
from kevolve.program import Program

SOURCE = """
import triton
import triton.language as tl
from triton.language.extra import libdevice

WARPS = 4

@triton.jit
def kernel(x, out, n, ROWS: tl.constexpr):
    rows = tl.arange(0, ROWS)
    total = tl.zeros((ROWS,), tl.float32)
    for first in range(0, n, ROWS):
        total += tl.load(x + first + rows, mask=first + rows < n, other=0.0)
    tl.store(out + rows, tl.where(rows < n, total, 0.0))

def op(x, out, n):
    kernel[(1,)](x, out, n, 32)
"""


def changed(old: str, new: str) -> str:
    assert old in SOURCE
    return SOURCE.replace(old, new)


def launched(options: str) -> str:
    return changed("n, 32)", f"n, 32, {options})")


@pytest.mark.parametrize("device", DIALECTS)
def test_what_every_device_can_do_passes_on_all(device):
    assert screen(Program("op", "triton", SOURCE), device) is None


@pytest.mark.parametrize("operator", operator_names())
def test_plain_programs_are_not_foreign_to_a_gpu(operator):
    source = (seeds_dir() / operator / "plain.py").read_text()
    assert foreign(source, "cuda") == foreign(source, "rocm") == ""


@pytest.mark.parametrize(
    ("device", "source", "wrong", "instead"),
    [
        ("rocm", launched("maxnreg=64"), "no maxnreg", "waves_per_eu=N"),
        ("rocm", launched("num_warps=32"), "2048 threads, since a warp has 64", "num_warps=16"),
        ("rocm", launched("num_warps=WARPS").replace("WARPS = 4", "WARPS = 32"), "2048 threads", "num_warps=16"),
        ("rocm", changed("tl.where(", "tl.dot(x, x, input_precision='tf32') + tl.where("), "gfx950", "'bf16x3'"),
        ("cuda", launched("waves_per_eu=2"), "no waves_per_eu", "maxnreg=N"),
        ("cuda", launched("cb_multiplier=2"), "no cb_multiplier", "num_stages"),
        ("mtia", launched("num_warps=4"), "no warps", "use_dual_core=True"),
        ("mtia", launched("num_stages=3"), "no num_stages", "cb_multiplier=N"),
        ("mtia", changed("other=0.0)", "other=0.0) + tl.where(rows < n, 1.0, 0.0)"), "in a loop", "tl.maximum"),
        (
            "mtia",
            changed("    tl.store(", "    tl.debug_barrier()\n    tl.store("),
            "debug_barrier",
            "pe_runtime_barrier",
        ),
        ("mtia", changed("other=0.0)", "other=0.0, cache_modifier='.cg')"), "no cache_modifier", "cb_multiplier"),
        ("mtia", changed("total, 0.0)", "libdevice.erf(total), 0.0)"), "no libdevice.erf", "exp, gelu, log"),
    ],
)
def test_what_a_device_lacks_is_refused_with_what_to_use_instead(device, source, wrong, instead):
    rejected = screen(Program("op", "triton", source), device)
    assert rejected is not None
    assert rejected.stage == "screen"
    assert f"on {device}" in rejected.reason
    assert wrong in rejected.reason
    assert instead in rejected.reason


@pytest.mark.parametrize(
    ("device", "source"),
    [
        ("rocm", launched("num_warps=16, waves_per_eu=2, matrix_instr_nonkdim=16, kpack=2")),
        ("cuda", launched("num_warps=32, maxnreg=64")),
        ("mtia", launched("cb_multiplier=2, use_dual_core=True")),
        ("mtia", changed("total, 0.0)", "libdevice.tanh(total), 0.0)")),
    ],
)
def test_what_a_device_has_of_its_own_is_allowed_there(device, source):
    assert screen(Program("op", "triton", source), device) is None


def test_every_option_of_a_launch_is_allowed_or_explained_on_every_device():
    for dialect in DIALECTS.values():
        assert {*dialect.options, *dialect.no_options} == {*host.OPTIONS}
        assert not {*dialect.options} & {*dialect.no_options}
