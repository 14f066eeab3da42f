"""A CUDA C++ program without what cannot matter: comments and layout."""

from __future__ import annotations

import re

from tree_sitter import Node

from kevolve.languages.cuda.source import parsed, text

# Where one of these is, layout may matter after all.
_SENSITIVE = re.compile(r"__LINE__|__COUNTER__|__FILE__|#\s*define|#\s*if|\bR\"|\\\n")
_WHOLE = ("preproc_include", "preproc_call", "string_literal", "char_literal")


def canonical(source: str) -> str:
    """Equal for programs that a compiler cannot tell apart; the source itself where that is not sure."""
    root = parsed(source.encode())
    if root.has_error or _SENSITIVE.search(source):
        return source
    words = [f"\n{text(leaf).strip()}\n" if leaf.type.startswith("preproc") else text(leaf) for leaf in _leaves(root)]
    return " ".join(words) or source


def _leaves(node: Node) -> list[Node]:
    """The tokens in order, without comments; lines for the preprocessor and literals stay whole."""
    if node.type == "comment":
        return []
    if not node.children or node.type in _WHOLE:
        return [node]
    return [leaf for inner in node.children for leaf in _leaves(inner)]
