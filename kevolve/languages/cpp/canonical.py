"""A C++ program without what cannot matter: comments, layout, and the names of parameters and local variables."""

from __future__ import annotations

import re

from tree_sitter import Node

from kevolve.languages.cpp.edits.source import Source, walk

# Where one of these is, layout or names may matter after all.
_SENSITIVE = re.compile(r"__LINE__|__COUNTER__|__FILE__|#\s*define|#\s*if|\bR\"|\\\n")


def canonical(source: str) -> str:
    """Equal for programs that a compiler cannot tell apart; the source itself where that is not sure."""
    tree = Source(source)
    if tree.broken or _SENSITIVE.search(source):
        return source
    names = _own_names(tree)
    words = []
    for leaf in _leaves(tree.root):
        text = tree.text(leaf)
        is_line = leaf.type.startswith("preproc") or text.startswith("#")
        words.append(f"\n{text}\n" if is_line else names.get(text, text) if leaf.type == "identifier" else text)
    return " ".join(words) or source


def _own_names(tree: Source) -> dict[str, str]:
    """A new name for every parameter and local variable whose name stands for nothing else anywhere in the text."""
    names: dict[str, str] = {}
    elsewhere: set[str] = set()
    declared: dict[int, set[str]] = {}
    nodes = [node for node in walk(tree.root) if node.type == "identifier"]
    for node in nodes:
        if _is_declared_in_a_function(node):
            declared.setdefault(_function(node), set()).add(tree.text(node))
            names.setdefault(tree.text(node), f"v{len(names)}")
    for node in nodes:
        is_called = node.parent is not None and node.parent.type == "call_expression"
        if is_called or tree.text(node) not in declared.get(_function(node), ()):
            elsewhere.add(tree.text(node))
    return {name: new for name, new in names.items() if name not in elsewhere}


def _function(node: Node) -> int:
    """The function that the node is in, as a key; 0 outside of all."""
    above: Node | None = node
    while above is not None and above.type != "function_definition":
        above = above.parent
    return above.id if above is not None else 0


def _leaves(node: Node) -> list[Node]:
    """The tokens in order, without comments; lines for the preprocessor and literals stay whole."""
    if node.type == "comment":
        return []
    if not node.children or node.type in ("preproc_include", "preproc_call", "string_literal", "char_literal"):
        return [node]
    return [leaf for inner in node.children for leaf in _leaves(inner)]


def _is_declared_in_a_function(identifier: Node) -> bool:
    """Is this where a parameter or local variable gets its name?"""
    node, parent = identifier, identifier.parent
    while parent is not None and parent.type in ("pointer_declarator", "array_declarator", "reference_declarator"):
        if parent.child_by_field_name("size") == node:
            return False
        node, parent = parent, parent.parent
    if parent is None:
        return False
    if parent.type == "parameter_declaration":
        return True
    is_variable = parent.type == "init_declarator" and parent.child_by_field_name("declarator") == node
    if not is_variable and parent.type != "declaration":
        return False
    while parent is not None and parent.type not in ("compound_statement", "for_statement"):
        parent = parent.parent
    return parent is not None
