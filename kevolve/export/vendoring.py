"""Vendoring: the operator's own modules, copied into a package that must do without kevolve.

What travels is what the judge measured with: the oracle, the baselines, the input makers and the checks. Only imports
are changed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

ROOM = "kevolve.operators"


def vendored(module: str, package: str) -> Mapping[str, str]:
    """Texts by path below the package's `reference` folder: `module` of kevolve.operators and all that it imports."""
    texts: dict[str, str] = {}
    pending = [ROOM, module]
    while pending:
        name = pending.pop()
        path = _path(name)
        if path in texts:
            continue
        text = Path(str(import_module(name).__file__)).read_text(encoding="utf-8")
        tree = ast.parse(text)
        pending += [*_imported(tree), *_packages_of(name)]
        texts[path] = _rewritten(text, tree, f"{package}.reference")
    return texts


def _path(module: str) -> str:
    """`jagged/forms.py` for kevolve.operators.jagged.forms."""
    file = Path(str(import_module(module).__file__))
    inner = module.removeprefix(ROOM).removeprefix(".").replace(".", "/")
    if file.name == "__init__.py":
        return f"{inner}/__init__.py" if inner else "__init__.py"
    return f"{inner}.py"


def _packages_of(module: str) -> Iterator[str]:
    """The packages between the room and the module."""
    parts = module.split(".")
    yield from (".".join(parts[:count]) for count in range(3, len(parts)))


def _imported(tree: ast.Module) -> Iterator[str]:
    """The modules of the room that are imported anywhere when the code runs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{ROOM}."):
            yield str(node.module)


def _rewritten(text: str, tree: ast.Module, package: str) -> str:
    """The same text with imports of the room from `package`, and no others of kevolve."""
    dropped: set[int] = set()
    for node in ast.walk(tree):
        is_foreign = isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kevolve.")
        if is_foreign and not str(node.module).startswith(f"{ROOM}."):  # type: ignore[attr-defined]
            dropped.update(range(node.lineno, int(node.end_lineno or node.lineno) + 1))  # type: ignore[attr-defined]
    kept = [line for number, line in enumerate(text.splitlines(keepends=True), 1) if number not in dropped]
    return re.sub(rf"\b{re.escape(ROOM)}\b(?=\.)", package, "".join(kept))
