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
_TYPOGRAPHIC = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "′": "'", "\u00a0": " ", "\u200b": None, "\ufeff": None}
)
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
    if isinstance(blocks, NoMatch):
        return Unusable("no match", str(blocks))
    source = _edited(parent, blocks) if blocks else _whole(text, language, entry)
    if isinstance(source, Unusable):
        return source
    source = restored(source, parent, language, entry)
    if normalise(source) == normalise(parent):
        return Unusable("equal", "the program is the one that was shown")
    return Reading(source, idea["idea"].strip()[:_IDEA_LENGTH] if idea else "")


def _edited(parent: str, blocks: list[Block]) -> str | Unusable:
    edited = applied(parent.replace("\r\n", "\n"), blocks)
    return Unusable("no match", str(edited)) if isinstance(edited, NoMatch) else edited


def _whole(text: str, language: str, entry: str) -> str | Unusable:
    """The program in a reply without blocks: the last fenced part that has the entry point, or the text itself."""
    named = re.compile(rf"\b{re.escape(entry)}\s*\(")
    parts = [part for part in _fenced(text) if named.search(part)]
    if parts:
        # Of several, the last is the finished one; an earlier that is much longer holds it in a larger whole.
        longest = max(parts, key=len)
        part = parts[-1] if len(parts[-1]) > len(longest) / 2 else longest
    elif named.search(text):
        begins = _CODE_BEGINS.get(language, _CODE_BEGINS[""]).search(text)
        part = text[begins.start() :] if begins else text
    else:
        return Unusable("no program", f"there is neither a SEARCH/REPLACE block nor a program with a function {entry}")
    source = _without_talk(part, language).strip("\n") + "\n"
    if not re.search(rf"\b{re.escape(entry)}\s*\([^;{{]*\)[^;]*[{{:]", source, re.DOTALL):
        return Unusable("no program", f"there is no whole function {entry} in the reply")
    return source


def _fenced(text: str) -> list[str]:
    """What stands between fences; a fence that is never closed goes to the end."""
    marks = list(_FENCE.finditer(text))
    parts, at = [], 0
    while at < len(marks):
        end = next((n for n in range(at + 1, len(marks)) if not marks[n]["language"]), None)
        parts.append(text[marks[at].end() + 1 : marks[end].start() if end is not None else len(text)])
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
