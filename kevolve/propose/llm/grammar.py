"""A grammar that holds a reply to edits that apply, for servers that take one (llama.cpp's): GBNF, made of the program.

A small model seldom quotes a program rightly, and seldom writes a line that compiles. Held by this it only says which
lines of the entry point to replace: before a loop it puts a hint for the compiler, elsewhere it writes what it likes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

IDEA = 60  # characters
LINE = 100
NEW_LINES = 2
QUOTED = 2  # lines of the program that one edit may replace
HINTS = {
    "cpp": (
        *("#pragma omp parallel for", "#pragma omp parallel for schedule(dynamic, 16)", "#pragma omp simd"),
        *("#pragma GCC ivdep", "#pragma GCC unroll 4", "#pragma GCC unroll 8"),
    )
}
_LOOP = re.compile(r"\s*for\b")


def edits_of(source: str, language: str, entry: str) -> str:
    """The grammar of replies that replace some lines of the function `entry`: an idea, then one SEARCH/REPLACE block.

    Empty if the source has no line that could be quoted.
    """
    choices = " | ".join(_edits(_body(source, entry), source, language))
    hints = " | ".join(_literal(f"{hint}\n") for hint in HINTS.get(language, ()))
    rules = [
        'root ::= "Idea: " idea "\\n\\n<<<<<<< SEARCH\\n" edit ">>>>>>> REPLACE\\n"',
        f"idea ::= [a-zA-Z] [^\\n]{{8,{IDEA}}}",
        f"edit ::= {choices}",
        f"new ::= line{{1,{NEW_LINES}}}",
        # A line that begins like a mark of a block or a fence would be one.
        f'line ::= [ ]{{0,24}} [^ \\n<>=`] [^\\n]{{0,{LINE}}} "\\n"',
    ]
    return "\n".join([*rules, *([f"hint ::= {hints}"] if hints else []), ""]) if choices else ""


def _edits(body: list[str], source: str, language: str) -> Iterator[str]:
    """What may be quoted, and what may come in its place."""
    often = Counter(line.strip() for line in source.split("\n"))
    for at, line in enumerate(body):
        # What is quoted begins with a line that is there once: so it fits in one place.
        if often[line.strip()] > 1 or not any(letter.isalnum() for letter in line):
            continue
        if _LOOP.match(line) and language in HINTS:
            indent = line[: len(line) - len(line.lstrip())]
            yield f"{_literal(_lines(line, '=======', indent))} hint {_literal(_lines(line, ''))}"
            continue
        for count in range(1, QUOTED + 1):
            quoted = body[at : at + count]
            if len(quoted) == count and all(part.strip() for part in quoted):
                yield f"{_literal(_lines(*quoted, '=======', ''))} new"


def _body(source: str, entry: str) -> list[str]:
    """The lines of the entry point after its head."""
    lines = [line.rstrip() for line in source.split("\n")]
    head = next((at for at, line in enumerate(lines) if re.search(rf"\b{re.escape(entry)}\s*\(", line)), None)
    if head is None:
        return []
    while head < len(lines) and not lines[head].endswith(("{", ":")):
        head += 1
    return lines[head + 1 :]


def _lines(*lines: str) -> str:
    return "\n".join(lines)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
