"""Writes blocks as C++ text. An expression that a block uses more than once gets a name there."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping

from kevolve.languages.cpp.lowering.expressions import ATOM, C_TYPES, Expression
from kevolve.languages.cpp.lowering.indices import written
from kevolve.languages.cpp.lowering.loops.blocks import Assignment, Block, Declaration, Folding, Statement
from kevolve.languages.cpp.lowering.loops.names import Names

LONGEST = 80  # characters of an expression inside another


def inline(value: Expression) -> str:
    """An expression as text, nothing named."""
    return _text(value, {})


def _text(value: Expression, known: dict[Expression, str]) -> str:
    if value in known:
        return known[value]
    if value.is_widening and value.operands[0] in known:
        return known[value.operands[0]]
    texts = []
    for operand, need in zip(value.operands, value.needs, strict=True):
        precedence = ATOM if operand in known else operand.precedence
        text = _text(operand, known)
        texts.append(f"({text})" if precedence < need else text)
    return value.text(*texts)


class Writer:
    """The lines of one block and the blocks in it."""

    def __init__(self, names: Names, hints: Mapping[Expression, str]):
        self.names = names
        self.hints = hints
        self.wanted: dict[Expression, str] = {}

    def fresh(self, value: Expression) -> str:
        """A new name for a value."""
        return self.names.fresh(self.hints.get(value, "value") if value.operands else "value")

    def block(self, block: Block) -> list[str]:
        """The statements of a block, not indented: `finish` of the edits does that."""
        shared = _shared(block.statements)
        known: dict[Expression, str] = {}
        self.wanted |= {s.value: s.name for s in block.statements if isinstance(s, Declaration) and s.value in shared}
        lines: list[str] = []
        for statement in block.statements:
            if isinstance(statement, Block):
                lines += self.loop(statement)
                continue
            self.name_shared(statement.value, shared, known, lines)
            lines += self.statement(statement, known)
        return lines

    def loop(self, block: Block) -> list[str]:
        """A loop and its body."""
        name = block.counter.name if block.counter is not None else ""
        head = f"for (int64_t {name} = {written(block.first)}; {name} < {written(block.past)}; {name}++) {{"
        return [head, *(f"    {line}" for line in self.block(block)), "}"]

    def name_shared(
        self, value: Expression, shared: set[Expression], known: dict[Expression, str], lines: list[str]
    ) -> None:
        """Declares what is shared below `value`, operands first."""
        if value in known:
            return
        for operand in value.operands[:1] if value.is_guarded else value.operands:
            self.name_shared(operand, shared, known, lines)
            text = _text(operand, known)
            if len(text) > LONGEST and operand not in known:  # a name in the middle of what is too long to read
                known[operand] = self.fresh(operand)
                lines.append(f"{C_TYPES[operand.kind]} {known[operand]} = {text};")
        if value in shared:
            text = _text(value, known)
            known[value] = self.wanted.get(value) or self.fresh(value)
            lines.append(f"{C_TYPES[value.kind]} {known[value]} = {text};")

    def statement(self, statement: Declaration | Assignment | Folding, known: dict[Expression, str]) -> list[str]:
        """One statement; a fold may take more than one line."""
        if isinstance(statement, Folding):
            return self.folding(statement, known)
        text = _text(statement.value, known)
        if isinstance(statement, Declaration):
            if text == statement.name:  # a name that was needed, and given, earlier
                return []
            return [f"{statement.type} {statement.name} = {text};"]
        return [f"{statement.target} {statement.sign} {text};"]

    def folding(self, statement: Folding, known: dict[Expression, str]) -> list[str]:
        """A value folded in. NaN stays, except in a maximum that may skip it."""
        fold, name, value = statement.fold, statement.name, statement.value
        text = _text(value, known)
        if fold in ("sum", "product"):
            return [f"{name} {'+' if fold == 'sum' else '*'}= {text};"]
        if fold in ("any", "all"):
            sign = "||" if fold == "any" else "&&"
            return [f"{name} = {name} {sign} {text if value in known or value.precedence == ATOM else f'({text})'};"]
        lines = []
        if value not in known and not (value.is_leaf and value.number is None and value.index is None):
            text = self.fresh(value)
            lines.append(f"{C_TYPES[value.kind]} {text} = {_text(value, known)};")
        sign = "<" if fold in ("min", "argmin") else ">"
        is_float = value.kind == "float"
        if fold in ("argmax", "argmin"):
            nan = f" || ({text} != {text} && {name} == {name})" if is_float else ""
            return [
                *lines,
                f"if ({text} {sign} {name}{nan}) {{",
                f"    {name} = {text};",
                f"    {statement.place} = {written(statement.position)};",
                "}",
            ]
        nan = f" || {text} != {text}" if is_float and fold != "plain_max" else ""
        return [*lines, f"{name} = {text} {sign} {name}{nan} ? {text} : {name};"]


def _shared(statements: Iterable[Statement]) -> set[Expression]:
    """Expressions that are used more than once, where nothing guards them."""
    uses: Tally[Expression] = Tally()
    pending = [s.value for s in statements if not isinstance(s, Block)]
    while pending:
        value = pending.pop()
        uses[value] += 1
        if uses[value] == 1:
            pending += value.operands[:1] if value.is_guarded else value.operands
    return {value for value, count in uses.items() if count > 1 and not value.is_leaf}
