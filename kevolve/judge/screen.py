"""The screen: what can be said of a program from its text alone, before anything is built.

It convicts only what no honest program needs; everything that behaviour can show is left to later stages.
"""

from __future__ import annotations

import re
from typing import Any

from kevolve.languages.registry import language
from kevolve.program import Program
from kevolve.verdict import Rejected

MAX_SOURCE_BYTES = 64 << 10  # a table of answers is bigger than any kernel

_HEADERS = frozenset(
    """
    kevolve.h cmath cstdint cstring cstddef cstdlib cfloat climits algorithm array atomic bit functional
    initializer_list iterator limits memory new numeric tuple type_traits utility vector math.h stdint.h string.h
    stddef.h stdlib.h float.h limits.h omp.h immintrin.h x86intrin.h arm_neon.h arm_sve.h
    """.split()
)
_SPLICE = re.compile(r"\\[ \t\f\v\r]*\n")
# Words and numbers, too: 1'000 has no character in it. A quotation mark that nothing answers goes to its line's end.
_TOKEN_OR_COMMENT = re.compile(
    r"""(?P<token>"(?:\\.|[^"\\\n])*(?:"|(?=\n|\Z))|'(?:\\.|[^'\\\n])*(?:'|(?=\n|\Z))
    |[A-Za-z_]\w*|\.?[0-9](?:'?\w|\.|(?<=[eEpP])[+-])*)
    |//[^\n]*|/\*.*?(?:\*/|\Z)""",
    re.DOTALL | re.VERBOSE,
)
_RAW_STRING = re.compile(r'R"')  # where a backslash at the end of a line means something else
_INCLUDE = re.compile(r"^[^\S\n]*#[^\S\n]*(?:include(?:_next)?|import)\b(?P<what>[^\n]*)", re.MULTILINE)
_ASSEMBLY = re.compile(r"\b(asm|__asm|__asm__)\b")
_EMBED = re.compile(r"^[^\S\n]*#[^\S\n]*embed\b", re.MULTILINE)
_OTHER_SPELLING = re.compile(r"%:|\?\?=")  # of #, which the patterns here would not see
_CACHES = re.compile(r"\b(?:_mm_|__builtin_ia32_)?(?:clflush\w*|clwb|cldemote)\b")
_PLACED = re.compile(r"\bsection\s*\(")


def screen(program: Program, device: str = "cpu") -> Rejected | None:
    """None if the program may be built for the device of that name.

    The entry point's types are the compiler's business, its presence ours.
    """
    size = len(program.source.encode())
    if size > MAX_SOURCE_BYTES:
        return Rejected("screen", f"the source has {size} bytes; {MAX_SOURCE_BYTES} are allowed")
    if "\0" in program.source:
        return Rejected("screen", "the source holds a NUL character")
    if program.language == "triton":
        from kevolve.languages.triton.dialects import foreign
        from kevolve.languages.triton.screen import check

        wrong = check(program.source, program.operator) or foreign(program.source, device)
        return Rejected("screen", wrong) if wrong else None
    if program.language == "cpp":
        return _screen_cpp(program)
    own: Any = language(program.language)
    wrong = own.screen(program.source, program.operator) if hasattr(own, "screen") else ""
    return Rejected("screen", wrong) if wrong else None


def _screen_cpp(program: Program) -> Rejected | None:
    code = _TOKEN_OR_COMMENT.sub(lambda match: match["token"] or " ", _SPLICE.sub("", program.source))
    entry = re.compile(rf'extern\s*"C"[^;{{}}]*\b{re.escape(program.operator)}\s*\(')
    if not entry.search(code) and not re.search(
        rf'extern\s*"C"\s*\{{.*\b{re.escape(program.operator)}\s*\(', code, re.DOTALL
    ):
        return Rejected("screen", f'there is no function extern "C" void {program.operator}(...)')
    for match in _INCLUDE.finditer(code):
        header = match["what"].strip().strip('<>"')
        if header not in _HEADERS:
            return Rejected(
                "screen", f"#include {match['what'].strip()} is not allowed", f"allowed: {', '.join(sorted(_HEADERS))}"
            )
    if _ASSEMBLY.search(code):
        return Rejected("screen", "inline assembly is not allowed; use intrinsics from immintrin.h or arm_neon.h")
    if _OTHER_SPELLING.search(code):
        return Rejected("screen", "%: and ??= are not allowed; write #")
    if _RAW_STRING.search(code):
        return Rejected("screen", "raw strings are not allowed: they could hide code from this look at the text")
    if _PLACED.search(code):
        return Rejected(
            "screen", "a section attribute is not allowed: where code and data lie is the linker's business"
        )
    if _CACHES.search(code):
        return Rejected("screen", "emptying caches is not allowed: the next program would pay for it")
    if _EMBED.search(code):
        return Rejected("screen", "#embed is not allowed")
    return None
