"""Routes: the rule of dispatch as the package's own Python code, over options that it can serve.

A baseline may answer only where it is right, so one that is wrong on a workload that kevolve uses to catch mistakes is
no option; one that is wrong on nothing but empty tensors is, and leaves those to the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kevolve.champions.champion import Champion
from kevolve.champions.dispatch import Leaf, Point, Rule, Split, choice, learn, losses, options
from kevolve.champions.rivals import Rivals, points
from kevolve.export.forms import Tried
from kevolve.operators.operator import Operator
from kevolve.program import Program
from kevolve.verdict import Measurement

ID = 8  # digits of a program's id that name it in the package


@dataclass(frozen=True)
class Routes:
    """`programs` by option, the champion first; `but_empty` are forms that must not be given empty tensors."""

    rule: Rule
    points: Sequence[Point]
    programs: Mapping[str, Program]
    but_empty: frozenset[str] = field(default_factory=frozenset)

    @property
    def losses(self) -> list[str]:
        """Workloads that are slower than the fastest baseline, whatever the rule does."""
        return losses(self.rule, self.points)

    def speedup(self, workload: str) -> float | None:
        """What the rule's choice came to on a workload; None if it was not measured."""
        found = [point for point in self.points if point.workload == workload]
        return found[0].speedups[choice(self.rule, found[0])] if found else None

    def chosen(self, workload: str) -> str:
        """Who answers on a workload."""
        return next(choice(self.rule, point) for point in self.points if point.workload == workload)

    def code(self) -> str:
        """The body of a function of `_sizes` and the tensors that returns an option."""
        return "\n".join(_lines(self.rule, 1, self))


def find_routes(
    champion: Champion,
    program: Program,
    operator: Operator,
    measured: Sequence[Measurement],
    rivals: Rivals,
    tried: Tried,
) -> Routes:
    """Learn the rule, and again without the options that turn out to be wrong somewhere."""
    first = champion.program[:ID]
    programs = {first: program} | {name[:ID]: rival for name, (rival, _) in rivals.programs.items()}
    known = {name[:ID]: speedups for name, (_, speedups) in rivals.programs.items()} | dict(rivals.baselines)
    known = {name: speedups for name, speedups in known.items() if name in programs or name in tried.table}
    but_empty: set[str] = set()
    while True:
        timed = points(operator, measured, known, first)
        rule = learn(timed, first) if timed else Leaf(first)
        forms = [name for name in options(rule) if name not in programs]
        wrong = [name for name in forms if not tried.is_right(name, but_empty=True)]
        if not wrong:
            but_empty = {name for name in forms if not tried.is_right(name)}
            chosen = {name: programs[name] for name in (first, *options(rule)) if name in programs}
            return Routes(rule, timed, chosen, frozenset(but_empty))
        known = {name: speedups for name, speedups in known.items() if name not in wrong}


def _lines(rule: Rule, depth: int, routes: Routes) -> list[str]:
    indent = "    " * depth
    if isinstance(rule, Split):
        feature = rule.feature if "." in rule.feature else f"_sizes.{rule.feature}"
        below = _lines(rule.below, depth + 1, routes)
        return [f"{indent}if {feature} < {rule.threshold}:", *below, *_lines(rule.above, depth, routes)]
    if rule.option in routes.but_empty:
        first = next(iter(routes.programs))
        return [f'{indent}return "{rule.option}" if min(_sizes) > 0 else "{first}"']
    return [f'{indent}return "{rule.option}"']
