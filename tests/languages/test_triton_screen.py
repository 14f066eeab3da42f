"""What a Triton program may be: all that it takes to launch kernels, and nothing that reaches into a process."""

from __future__ import annotations

import pytest

from kevolve.languages.triton.screen import check
from kevolve.operators.registry import operator_names
from kevolve.paths import seeds_dir

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\nROWS = 32\n"
KERNEL = """
@triton.jit
def kernel(x, out, n, ROWS: tl.constexpr):
    rows = tl.arange(0, ROWS)
    tl.store(out + rows, tl.load(x + rows, mask=rows < n), mask=rows < n)

"""


def program(body: str, kernel: str = KERNEL, head: str = HEAD) -> str:
    return f"{head}{kernel}\ndef op(x, out, n):\n    {body}\n    kernel[(1,)](x, out, n, ROWS)\n"


@pytest.mark.parametrize("operator", operator_names())
def test_every_plain_program_passes(operator):
    assert check((seeds_dir() / operator / "plain.py").read_text(), operator) == ""


HONEST = [
    "m = x.shape[0] + x.numel() // max(n, 1)",
    "y = torch.zeros((n, 4), dtype=torch.float32, device=x.device)",
    "grid = lambda meta: (triton.cdiv(n, meta['ROWS']), 1)",
    "for start in range(0, n, ROWS):\n        kernel[(1,)](x, out, start, ROWS=ROWS, num_warps=8)",
    "blocks = triton.next_power_of_2(n) if n < 2048 else 2048",
    "a, b = divmod(n, 4)",
]


@pytest.mark.parametrize("body", HONEST)
def test_what_launching_takes_is_allowed(body):
    assert check(program(body), "op") == ""


HOSTILE = {
    "import os": "__import__('os').system('id')",
    "the frame": "f = (i for i in ()).gi_frame",
    "dunder": "x.__class__.__mro__",
    "a timer": "torch.cuda.Event.elapsed_time = None",
    "an address": "p = x.data_ptr()",
    "a stream": "s = torch.cuda.Stream()",
    "a graph": "g = torch.cuda.CUDAGraph()",
    "memory from one call to the next": "global seen",
    "attributes as memory": "kernel.seen = x",
    "items as memory": "x.shape[0] = 3",
    "eval": "eval('1')",
    "getattr": "getattr(x, 'data_ptr')",
    "a class": "class A: pass",
    "a try": "try:\n        pass\n    except Exception:\n        pass",
    "a format": "s = f'{x.dtype}'",
    "a method of strings": "s = '{0.__class__}'.format(x)",
    "a walrus": "(y := 3)",
    "a comprehension": "y = [i for i in range(3)]",
    "a huge power": "y = 10 ** 10 ** 10",
    "splat": "kernel[(1,)](**x)",
    "another kernel": "torch.ops.aten.sum(x)",
    "torch itself": "torch.sum(x)",
    "rebinding": "kernel = x",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_could_reach_into_the_process_is_refused(what):
    assert check(program(HOSTILE[what]), "op") != ""


BODY = "    rows = tl.arange(0, ROWS)\n"
ASSEMBLY = "    tl.inline_asm_elementwise('', '', [], tl.int32, True, 1)\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import torch\n", "import torch\nimport os\n"),
        ("import torch\n", "from torch import cuda\n"),
        ("ROWS = 32\n", "ROWS = 32\nprint(1)\n"),
        ("ROWS = 32\n", "CACHE = {}\n"),
        ("ROWS = 32\n", "ROWS = max(tl.constexpr(1), 2)\n"),
        ("@triton.jit\n", "@triton.autotune(configs=[], key=[])\n@triton.jit\n"),
        ("@triton.jit\n", "@open('/etc/passwd').read\n"),
        ("def kernel(x,", "def kernel(x: (i for i in ()).gi_frame,"),
        ("ROWS: tl.constexpr):", "ROWS: tl.constexpr = open('x')):"),
        (BODY, BODY + "    op(x, out, n)\n"),
        (BODY, BODY + "    import os\n"),
        (BODY, BODY + ASSEMBLY),
        (BODY, BODY + "    t = tl.extra.cuda.globaltimer()\n"),
    ],
)
def test_hostile_modules_and_kernels_are_refused(old, new):
    source = program("pass")
    assert old in source
    assert check(source.replace(old, new), "op") != ""


def test_the_reason_names_the_line_and_what_there_is_instead():
    reason = check(program("p = x.data_ptr()"), "op")
    assert reason.startswith("line 14:")
    assert "element_size" in reason


def test_a_program_without_its_function_is_refused():
    assert "no function other" in check(program("pass"), "other")


def test_text_that_is_no_python_is_refused_with_its_line():
    assert check("def op(:\n", "op").startswith("line 1:")
