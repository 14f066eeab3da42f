"""What the policies without a population share: the tree of all programs, and asking.

A program hangs below its first parent. Programs that were rejected are no nodes, but they are counted where they
would have been. A policy on top of this says one thing: which program to improve next.
"""

from __future__ import annotations

import math
import random
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kevolve.propose.proposer import Kind, Request
from kevolve.search.policies.credit import Ledger
from kevolve.search.policies.policy import WIDE_DRAFTS, Arrival, Member, Policy, Stirred, Told

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kevolve.config import PolicyConfig

KINDS: tuple[Kind, ...] = ("draft", "improve", "crossover")  # by the number of parents


@dataclass(eq=False)
class Node:
    """A Scored program. `visits` counts the verdicts in its subtree, itself included."""

    member: Member
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    tried: int = 0  # children, rejected ones included
    fruitless: int = 0  # children since the last that was better than the program itself
    visits: int = 1
    best: float = -math.inf  # log2 of the best speedup in its subtree

    @property
    def gain(self) -> float:
        """log2 of its own speedup."""
        return math.log2(self.member.fitness[0])

    def line(self) -> Iterable[Node]:
        """The node, its parent, and so on."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent


class TreePolicy(Policy):
    """Asks to improve what `choose` chooses, after `drafts` independent drafts. Subclasses implement `choose`."""

    def __init__(self, config: PolicyConfig, identity: str) -> None:
        self.asks = 0
        self.config = config
        self.nodes: dict[str, Node] = {}  # in the order in which they were told
        self._identity = identity
        self._ledger = Ledger()
        self._best = -math.inf  # gain, since the last restart
        self._is_wide = False

    @abstractmethod
    def choose(self, draw: random.Random) -> Node | None:
        """The program to improve; None for a new draft. There is at least one node."""

    def ask(self) -> Request:
        # Seeding afresh at every ask makes the count of asks the whole random state: it fits into an event.
        draw = random.Random(f"{self._identity}/{self.asks}")
        draft_rate = max(self.config.draft_rate, WIDE_DRAFTS) if self._is_wide else self.config.draft_rate
        is_draft = self.asks < self.config.drafts or not self.nodes or draw.random() < draft_rate
        self.asks += 1
        node = None if is_draft else self.choose(draw)
        parents = [node] if node is not None else []
        if node is not None and len(self.nodes) > 1 and draw.random() < self.config.crossover_rate:
            parents.append(self._partner(node, draw))
        chosen = tuple(one.member.program for one in parents)
        return Request(KINDS[len(parents)], chosen, seed=draw.getrandbits(48), credit=self._ledger.credit())

    def tell(self, told: Told) -> None:
        self._ledger.learn(told)
        parent = self.nodes.get(told.parents[0]) if told.parents else None
        node = None
        if told.fitness is not None and told.program not in self.nodes:
            node = self.nodes[told.program] = Node(Member(told.program, told.fitness, told.niche), parent)
            node.best = node.gain
            if node.gain > self._best:
                self._best, self._is_wide = node.gain, False
        if parent is not None and (node is not None or told.fitness is None):
            self._grow(parent, node)

    def members(self) -> list[Member]:
        """The best, as many as an island would keep."""
        ranked = sorted((node.member for node in self.nodes.values()), key=lambda member: member.fitness, reverse=True)
        return ranked[: self.config.population]

    def welcome(self, arrival: Arrival) -> None:
        """A migrant is a root of its own."""
        self.tell(Told(arrival.member.program, arrival.member.fitness, niche=arrival.member.niche))

    def stir(self, stirred: Stirred) -> None:
        """Widen: half of what comes is drafts, until one is better. Restart: what was found is no parent any more."""
        self._is_wide = stirred.remedy == "widen"
        if stirred.remedy == "restart":
            self.nodes.clear()
            self._best = -math.inf
        if stirred.guest is not None:
            self.welcome(stirred.guest)

    def _grow(self, parent: Node, child: Node | None) -> None:
        parent.tried += 1
        if child is not None:
            parent.children.append(child)
        is_better = child is not None and child.member.fitness > parent.member.fitness
        parent.fruitless = 0 if is_better else parent.fruitless + 1
        for node in parent.line():
            node.visits += 1
            node.best = max(node.best, child.best if child is not None else -math.inf)

    def _partner(self, node: Node, draw: random.Random) -> Node:
        """The better of two others."""
        others = [other for other in self.nodes.values() if other is not node]
        return max((draw.choice(others) for _ in range(2)), key=lambda other: other.member.fitness)
