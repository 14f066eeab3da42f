"""Replies: from what a model or a person wrote to the source of a program, or to a word on why there is none.

A reply holds SEARCH/REPLACE blocks on the parent's text or a whole program, with or without fences, and talk around
it. What only an editor or a chat would change (line ends, typographic quotes, indentation) is forgiven; what is
ambiguous is not guessed.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from kevolve.program import normalise
from kevolve.propose.blocks import Block, NoMatch, applied, blocks_of
from kevolve.propose.desk import Outcome
from kevolve.propose.immutable import restored

_IDEA = re.compile(r"^[ \t>*_#-]*idea[*_ \t]*:[*_ \t]*(?P<idea>\S.*)$", re.IGNORECASE | re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*(?P<language>[\w+#.-]*)[^\n`]*$", re.MULTILINE)
_CODE_BEGINS = {
    "triton": re.compile(r'^(import |from |@triton|def |"""|#)', re.MULTILINE),
    "": re.compile(
        r"^(#\s*(include|pragma|define)|extern\b|__\w+__\b|constexpr\b|template\b|static\b|inline\b|namespace\b|//|/\*)",
        re.MULTILINE,
    ),
}
# Where the entry point is defined, not called.
_C_FUNCTION = r"\b(?!return\b)\w+\s+{entry}\s*\([^;{{]*\)[^;{{}}]*\{{"
_DEFINED = {
    "cpp": _C_FUNCTION,
    "cuda": _C_FUNCTION,
    "triton": r"^def\s+{entry}\s*\([^;{{]*\)[^;\n]*:",
    "": r"\b{entry}\s*\([^;{{]*\)[^;]*[{{:]",
}
_TYPOGRAPHIC = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "′": "'", "\u00a0": " ", "\u200b": None, "\ufeff": None}
)
_BLOCKS = re.compile(r"^[ \t>]*<{4,}.*?(?:^[ \t]*>{4,}[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_IDEA_LENGTH = 160
_THOUGHTS = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Reading:
    """A program's source and, in the author's words, what is new in it."""

    source: str
    idea: str = ""


@dataclass(frozen=True)
class Unusable:
    """No program, and why, in words that help whoever wrote the reply."""

    outcome: Outcome
    reason: str


def read_reply(text: str, finish: str, parent: str, language: str, entry: str) -> Reading | Unusable:
    """The program that `text` makes of `parent`, the source that it was shown, in `language` with function `entry`.

    `finish` is why the reply ended: one that was cut off or filtered is no program, however whole it looks.
    """
    if finish == "content_filter":
        return Unusable("filtered", "the provider filtered the reply")
    text = _THOUGHTS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    if finish not in ("", "stop", "end_turn", "eos", "function_call", "tool_calls"):
        return Unusable("cut off", f"the reply was cut off ({finish}): type a larger proposer.reply_tokens")
    if not text.strip():
        return Unusable("empty", "the reply is empty")
    text = text.translate(_TYPOGRAPHIC)
    idea = _IDEA.search(text)
    blocks = blocks_of(text)
    source = _edited(parent, blocks) if blocks else _whole(text, language, entry)
    if isinstance(source, Unusable):
        beside = _beside_blocks(text, language, entry) if blocks else None
        if beside is None or normalise(restored(beside, parent, language, entry)) == normalise(parent):
            return source
        source = beside
    source = restored(source, parent, language, entry)
    if normalise(source) == normalise(parent):
        return Unusable("equal", "the program is the one that was shown")
    return Reading(source, idea["idea"].strip()[:_IDEA_LENGTH] if idea else "")


def _edited(parent: str, blocks: list[Block] | NoMatch) -> str | Unusable:
    edited = blocks if isinstance(blocks, NoMatch) else applied(parent.replace("\r\n", "\n"), blocks)
    return Unusable("no match", str(edited)) if isinstance(edited, NoMatch) else edited


def _whole(text: str, language: str, entry: str) -> str | Unusable:
    """The program in a reply without blocks: the last fenced part that has the entry point, or the text itself."""
    named = re.compile(rf"\b{re.escape(entry)}\s*\(")
    defined = _definition(language, entry)
    fenced = [part for part in _fenced(text) if named.search(part.text)]
    parts = [part for part in fenced if defined.search(part.text)] or fenced
    is_closed = False
    if parts:
        # Of several, the last is the finished one; an earlier that is much longer holds it in a larger whole.
        longest = max(parts, key=lambda part: len(part.text))
        chosen = parts[-1] if len(parts[-1].text) > len(longest.text) / 2 else longest
        part, is_closed = chosen.text, chosen.is_closed
    elif named.search(text):
        begins = _CODE_BEGINS.get(language, _CODE_BEGINS[""]).search(text)
        part = text[begins.start() :] if begins else text
    else:
        return Unusable("no program", f"there is neither a SEARCH/REPLACE block nor a program with a function {entry}")
    # What stands between two fences is all code, be it broken: the compiler says so better than a guess.
    source = (part if is_closed else _without_talk(part, language)).strip("\n") + "\n"
    if not defined.search(source):
        return Unusable("no program", f"there is no whole function {entry} in the reply")
    return source


def _beside_blocks(text: str, language: str, entry: str) -> str | None:
    """A whole program between fences of its own, beside blocks that do not apply."""
    outside, defined = _BLOCKS.sub("", text), _definition(language, entry)
    found = [part.text for part in _fenced(outside) if part.is_closed and defined.search(part.text)]
    return found[-1].strip("\n") + "\n" if found else None


def _definition(language: str, entry: str) -> re.Pattern[str]:
    pattern = _DEFINED.get(language, _DEFINED[""]).format(entry=re.escape(entry))
    return re.compile(pattern, re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class _Fenced:
    text: str
    is_closed: bool


def _fenced(text: str) -> list[_Fenced]:
    """What stands between fences; a fence that is never closed goes to the end."""
    marks = list(_FENCE.finditer(text))
    parts, at = [], 0
    while at < len(marks):
        end = next((n for n in range(at + 1, len(marks)) if not marks[n]["language"]), None)
        part = text[marks[at].end() + 1 : marks[end].start() if end is not None else len(text)]
        parts.append(_Fenced(part, end is not None))
        at = len(marks) if end is None else end + 1
    return parts


def _without_talk(part: str, language: str) -> str:
    """The part up to where its code ends."""
    lines = part.rstrip().split("\n")
    if language == "triton":
        return _parsing_prefix(lines)
    for end in range(len(lines), 0, -1):
        line = lines[end - 1]
        if re.match(r"^(\}|#\s*(endif|undef|pragma|define)|//.*\S|.*[;}\\]\s*(//.*)?$)", line):
            return "\n".join(lines[:end])
    return part


def _parsing_prefix(lines: list[str]) -> str:
    for end in range(len(lines), 0, -1):
        try:
            ast.parse("\n".join(lines[:end]))
        except (SyntaxError, ValueError):
            continue
        return "\n".join(lines[:end])
    return "\n".join(lines)
