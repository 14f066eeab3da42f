"""What can be said of a CUDA C++ program from its text: does it include only what there is, and does it only launch?

What kernels do, the compiler's output tells better than the text (`compiling.py`): no spelling hides a clock there.
"""

from __future__ import annotations

import re

from kevolve.languages.cuda.expressions import Refused
from kevolve.languages.cuda.translate import translated

HEADERS = frozenset("kevolve_cuda.h cuda_bf16.h cuda_fp16.h cuda_fp8.h mma.h cuda_pipeline.h".split())
_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_STRING_OR_COMMENT = re.compile(
    r'(?P<string>R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\')'
    r"|//[^\n]*|/\*.*?(?:\*/|\Z)",
    re.DOTALL,
)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include(_next)?\b[ \t]*(?P<what>[^\n]*)", re.MULTILINE)
_EMBED = re.compile(r"^[ \t]*#[ \t]*embed\b|\b__has_(include|embed)", re.MULTILINE)
_OTHER_SPELLING = re.compile(r"%:|\?\?=")  # of #, which the patterns here would not see


def check(source: str, entry: str) -> str:
    """What is wrong with a program whose launching function is `entry`, in a sentence; empty if nothing is."""
    code = _STRING_OR_COMMENT.sub(lambda match: match["string"] or " ", _SPLICE.sub("", source))
    for match in _INCLUDE.finditer(code):
        if match[1] or match["what"].strip().strip('<>"') not in HEADERS:
            return f"#include {match['what'].strip()} is not allowed; there is: {', '.join(sorted(HEADERS))}"
    if _OTHER_SPELLING.search(code):
        return "%: and ??= are not allowed; write #"
    if found := _EMBED.search(code):
        return f"{found[0].strip()} is not allowed: a program comes in one piece"
    try:
        translated(source, entry)
    except Refused as refused:
        return str(refused)
    return ""
