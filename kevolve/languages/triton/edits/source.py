"""A Triton program under edit: its constants, launches, loops, loads and stores by name, and how to change its text.

Edits that rewrite a kernel come first; those after them neither add nor remove one of these, so a name that counts them
(`load.2` is the third load of the rewritten text) finds the same one after any of those.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property


class Source:
    """The parsed text. `broken` if it is no Python."""

    def __init__(self, text: str):
        self.text = text
        self.lines = [line.encode() for line in text.splitlines(keepends=True)]
        try:
            self.tree = ast.parse(text)
        except SyntaxError:
            self.tree = ast.Module([], [])
        self.broken = not self.tree.body

    @cached_property
    def constants(self) -> Mapping[str, ast.Constant]:
        """Numbers with a name at module level."""
        return {
            node.targets[0].id: node.value
            for node in self.tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Constant)
            and type(node.value.value) is int
        }

    @cached_property
    def kernels(self) -> Mapping[str, ast.FunctionDef]:
        """The functions that run on the device."""
        return {node.name: node for node in self.tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list}

    @cached_property
    def launches(self) -> Mapping[str, ast.Call]:
        """`kernel[grid](...)`, by `launch.0` and so on."""
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        found = [call for call in calls if isinstance(call.func, ast.Subscript) and self._called(call) in self.kernels]
        return _counted("launch", found)

    @cached_property
    def loops(self) -> Mapping[str, ast.Call]:
        """What `for ... in range(...)` of kernels iterate over, by `loop.0` and so on."""
        inside = [node for kernel in self.kernels.values() for node in ast.walk(kernel)]
        iterated = [node.iter for node in inside if isinstance(node, ast.For)]
        found = [i for i in iterated if isinstance(i, ast.Call) and ast.unparse(i.func) in ("range", "tl.range")]
        return _counted("loop", found)

    def accesses(self, function: str) -> Mapping[str, ast.Call]:
        """Calls of tl.load or tl.store in kernels, by `load.0` and so on."""
        inside = [node for kernel in self.kernels.values() for node in ast.walk(kernel)]
        found = [node for node in inside if isinstance(node, ast.Call) and ast.unparse(node.func) == f"tl.{function}"]
        return _counted(function, found)

    def importance(self, site: str) -> float:
        """No site is known to matter more than another."""
        return 1.0

    def replaced(self, node: ast.expr, text: str) -> str:
        """The program with `text` in the place of `node`."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        before = b"".join(self.lines[: node.lineno - 1]) + self.lines[node.lineno - 1][: node.col_offset]
        after = self.lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(self.lines[node.end_lineno :])
        return (before + text.encode() + after).decode()

    def with_keyword(self, call: ast.Call, name: str, value: str) -> str:
        """The program with an argument of a call set by name; an empty `value` takes it away."""
        keywords = [f"{keyword.arg}={ast.unparse(keyword.value)}" for keyword in call.keywords if keyword.arg != name]
        arguments = [*map(ast.unparse, call.args), *keywords, *([f"{name}={value}"] if value else [])]
        return self.replaced(call, f"{ast.unparse(call.func)}({', '.join(arguments)})")

    def _called(self, call: ast.Call) -> str:
        assert isinstance(call.func, ast.Subscript)
        return ast.unparse(call.func.value)


def _counted(kind: str, nodes: list[ast.Call]) -> dict[str, ast.Call]:
    ordered = sorted(nodes, key=lambda node: (node.lineno, node.col_offset))
    return {f"{kind}.{number}": node for number, node in enumerate(ordered)}
