"""What of a program is not its author's to change: the entry point's declaration, and what every program begins with.

It is put back by construction, so that a slip there costs no judgement.
"""

from __future__ import annotations

import re

_BEGINNINGS = {
    "cpp": ('#include "kevolve.h"',),
    "triton": ("import triton", "import triton.language as tl"),
    "cuda": ('#include "kevolve_cuda.h"',),
}


def restored(source: str, parent: str, language: str, entry: str) -> str:
    """`source` with the parent's declaration of `entry` and the beginnings of its language. Other languages stay."""
    if language in ("cpp", "cuda"):
        source = _declared(source, parent, _c_declaration(entry))
    elif language == "triton":
        source = _declared(source, parent, re.compile(rf"^def\s+{re.escape(entry)}\s*\([^)]*\)[^:\n]*:", re.MULTILINE))
    missing = [
        line
        for line in _BEGINNINGS.get(language, ())
        if not re.search(rf"^\s*{_loose(line)}\s*(//.*|#.*)?$", source, re.MULTILINE)
    ]
    return "\n".join([*missing, source]) if missing else source


def _c_declaration(entry: str) -> re.Pattern[str]:
    return re.compile(rf'(?:extern\s*"C"\s+)?\bvoid\s+{re.escape(entry)}\s*\([^)]*\)(?=\s*\{{)')


def _declared(source: str, parent: str, declaration: re.Pattern[str]) -> str:
    """The child's declaration is replaced by the parent's where it takes as many arguments under other types or names.

    Names are the author's where only types differ; a child that renames arguments uses the new names, so then only
    what stands before the arguments is restored.
    """
    theirs, ours = declaration.findall(source), declaration.search(parent)
    if len(theirs) != 1 or ours is None:
        return source
    mine = ours.group()
    if _names(theirs[0]) != _names(mine):
        if theirs[0].startswith("void"):
            return declaration.sub(lambda match: f'extern "C" {match.group()}', source, count=1)
        return source
    return declaration.sub(lambda match: mine, source, count=1)


def _names(declaration: str) -> list[str]:
    """The names of the arguments, in order."""
    inside = declaration[declaration.index("(") + 1 : declaration.rindex(")")]
    return [re.sub(r"=.*|:.*", "", part).split()[-1].lstrip("*&") for part in inside.split(",") if part.strip()]


def _loose(line: str) -> str:
    """The line as a pattern that does not mind blanks."""
    return r"\s*".join(re.escape(word) for word in re.findall(r"\w+|\S", line))
