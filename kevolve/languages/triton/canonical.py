"""A Triton program without what cannot matter: comments, layout and docstrings."""

from __future__ import annotations

import ast


def canonical(source: str) -> str:
    """Equal for programs with the same syntax tree; the source itself if it is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return source
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
